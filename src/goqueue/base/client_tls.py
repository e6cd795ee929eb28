"""TLS as a client speaks it: whom it trusts and which certificate it shows, by the names of files in PEM."""

from __future__ import annotations

import ssl
from pathlib import Path


class TlsFileUnusable(Exception):
    """Names the file and says why, in one line."""

    def __init__(self, files: str, error: OSError) -> None:
        super().__init__(f"What is in {files} cannot be used for TLS ({error.strerror or error})")
        self.files = files


def client_context(ca_file: str, cert_file: str, key_file: str) -> ssl.SSLContext:
    """Without an authority those of the system are trusted. The private key may be in the certificate's file."""
    for file in filter(None, (ca_file, cert_file, key_file)):
        _check_readable(file)  # OpenSSL does not say which file is missing
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise TlsFileUnusable(ca_file, error) from None
    if cert_file:
        _load_certificate(context, cert_file, key_file or cert_file)
    return context


def _check_readable(file: str) -> None:
    try:
        with Path(file).open("rb"):
            return
    except OSError as error:
        raise TlsFileUnusable(file, error) from None


def _load_certificate(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    try:
        context.load_cert_chain(cert_file, key_file, password=_no_password)
    except OSError as error:
        files = cert_file if cert_file == key_file else f"{cert_file} and {key_file}"
        raise TlsFileUnusable(files, error) from None


def _no_password() -> str:
    """Without this OpenSSL would ask on the terminal, and wait."""
    raise OSError("the private key is encrypted")
