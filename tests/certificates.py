"""Certificates for tests, made by the openssl program."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

_CA_CONFIG = """[ca]
default_ca = this
[this]
database = index.txt
serial = expired.srl
new_certs_dir = .
default_md = sha256
policy = any
[any]
commonName = supplied
"""
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class CertificateFiles(NamedTuple):
    cert: Path
    key: Path
    ca: Path

    def settings(self) -> dict[str, str]:
        return {"tls_cert": str(self.cert), "tls_key": str(self.key), "tls_ca": str(self.ca)}


class Authority:
    """Signs for 127.0.0.1 and localhost."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._openssl(
            "req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=authority", "-days", "2"
        )

    def sign(self, name: str, host: str = "IP:127.0.0.1,DNS:localhost") -> CertificateFiles:
        self._openssl("req", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (self._directory / f"{name}.ext").write_text(f"subjectAltName={host}\n")
        signer = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signer)
        return CertificateFiles(
            self._directory / f"{name}.crt", self._directory / f"{name}.key", self._directory / "ca.crt"
        )

    def expire(self, name: str) -> None:
        """The certificate was over yesterday."""
        (self._directory / "index.txt").touch()
        (self._directory / "expired.srl").write_text("01\n")
        signer = ("-cert", "ca.crt", "-keyfile", "ca.key", "-config", "ca.conf", "-extfile", f"{name}.ext")
        (self._directory / "ca.conf").write_text(_CA_CONFIG)
        times = ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
        files = ("-in", f"{name}.csr", "-out", f"{name}.crt", "-notext", "-batch")
        self._openssl("ca", *signer, *times, *files)

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._directory, check=True, capture_output=True, timeout=60)
