"""What protects the port between nodes: a secret that both sides prove to know, certificates, or both.

Certificates are read again when their files change, for connections that are made from then on. What cannot be read, as
a file that is being written, leaves those before it in force.
"""

from __future__ import annotations

import logging
import secrets
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.startup_errors import SettingsInvalid
from goqueue.wire.node_proof import NONCE_BYTES, CalledProof, CallerProof

logger = logging.getLogger(__name__)

SECRET_CHARS_MIN: Final = 16
_Marks = tuple[tuple[int, int], ...]


class PeerCertificates:
    """A node's certificate, its key, and who signs those of the others."""

    def __init__(self, cert_file: str, key_file: str, ca_file: str) -> None:
        """`SettingsInvalid` if they cannot be used."""
        self._files = cert_file, key_file, ca_file
        self._marks: _Marks = ()
        try:
            self._marks = self._look()
            self._server, self._client = self._load()
        except (OSError, ssl.SSLError) as error:
            raise SettingsInvalid(
                f"The node port's certificates cannot be used: {error}.", field="cluster.tls_cert"
            ) from error
        self._outer = self._asking()

    def server(self) -> ssl.SSLContext:
        """For the port, once and for all."""
        return self._outer

    def client(self) -> ssl.SSLContext:
        """For one connection."""
        self._refresh()
        return self._client

    def _chosen(self, line: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """At the beginning of every connection that comes in."""
        self._refresh()
        line.context = self._server

    def _refresh(self) -> None:
        try:
            marks = self._look()
            if marks == self._marks:
                return
            self._marks = marks
            self._server, self._client = self._load()
            logger.info("the node port's certificates were read again")
        except (OSError, ssl.SSLError) as error:
            logger.error("the node port's certificates cannot be read; the last ones hold", extra={"error": str(error)})

    def _look(self) -> _Marks:
        found = [Path(path).stat() for path in self._files]
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)

    def _load(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        return self._new_server(), self._filled(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _new_server(self) -> ssl.SSLContext:
        context = self._filled(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _asking(self) -> ssl.SSLContext:
        """One that looks for the certificates in force."""
        context = self._new_server()
        context.sni_callback = self._chosen
        return context

    def _filled(self, context: ssl.SSLContext) -> ssl.SSLContext:
        cert_file, key_file, ca_file = self._files
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(cert_file, key_file)
        context.load_verify_locations(ca_file)
        return context


class PeerSecurity:
    """Of both ends; without anything it lets everybody in."""

    def __init__(self, known: Sequence[bytes] = (), certificates: PeerCertificates | None = None) -> None:
        self._secrets = tuple(known)
        self._certificates = certificates

    def called(self) -> CalledProof | None:
        return CalledProof(self._secrets, secrets.token_bytes(NONCE_BYTES)) if self._secrets else None

    def caller(self) -> CallerProof | None:
        return CallerProof(self._secrets, secrets.token_bytes(NONCE_BYTES)) if self._secrets else None

    def server_tls(self) -> ssl.SSLContext | None:
        return None if self._certificates is None else self._certificates.server()

    def client_tls(self) -> ssl.SSLContext | None:
        return None if self._certificates is None else self._certificates.client()


OPEN: Final = PeerSecurity()


def security_of(settings: ClusterSettings) -> PeerSecurity:
    """`SettingsInvalid` if what the settings name cannot be used."""
    certificates = None
    if settings.tls_cert:
        certificates = PeerCertificates(settings.tls_cert, settings.tls_key, settings.tls_ca)
    return PeerSecurity(_secrets(settings), certificates)


def _secrets(settings: ClusterSettings) -> list[bytes]:
    given, field = [settings.secret] if settings.secret else [], "cluster.secret"
    if settings.secret_file:
        field = "cluster.secret_file"
        try:
            given = Path(settings.secret_file).read_text().split()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsInvalid(f"The secret of the cluster cannot be read: {error}.", field=field) from error
        if not given:
            raise SettingsInvalid(f"{settings.secret_file} is empty; it has to hold the cluster's secret.", field=field)
    if any(len(one) < SECRET_CHARS_MIN for one in given):
        raise SettingsInvalid(f"The cluster's secret needs {SECRET_CHARS_MIN} characters or more.", field=field)
    return [one.encode() for one in given]
