"""Who a pipeline is at a node, and whom it trusts: files with the key and the authority, and never what is in them.

Addresses travel through plans and tasks as text, and the names of these files with them, behind a `#`:
`host:9092#keyFile=/etc/goqueue/spark.key&caFile=/etc/goqueue/ca.crt`. The files are read by whoever connects, each
time: they have to be on the machines of the executors too, and a key that takes the place of another counts at once.
"""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from goqueue.base.client_tls import TlsFileUnusable, client_context
from goqueue.base.limits import KIB
from goqueue.pipeline.link.errors import PipelineError

if TYPE_CHECKING:
    from goqueue.client import Client

KEY_FILE: Final = "keyFile"
CA_FILE: Final = "caFile"
TLS: Final = "tls"
MECHANISM: Final = "mechanism"
CERT_FILE: Final = "certFile"
CERT_KEY_FILE: Final = "certKeyFile"
RACK: Final = "rack"
PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
BEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *SCRAM, BEARER)
_KEY_BYTES_MAX: Final = 16 * KIB
_MARK: Final = "#"
_PARTS: Final = frozenset({KEY_FILE, CA_FILE, TLS, MECHANISM, CERT_FILE, CERT_KEY_FILE, RACK})


class NodeIdentity(msgspec.Struct, frozen=True):
    """What is empty is as the environment says: GOQUEUE_KEY or GOQUEUE_KEY_FILE, GOQUEUE_CA_FILE, GOQUEUE_CERT_FILE and
    GOQUEUE_CERT_KEY_FILE, GOQUEUE_RACK. With an authority or a certificate, or if `tls` says so, Kafka's door is spoken
    to by TLS. There the key is shown by `mechanism`. `rack` is where the reader stands."""

    key_file: str = ""
    ca_file: str = ""
    tls: bool = False
    mechanism: str = PLAIN
    cert_file: str = ""
    cert_key_file: str = ""
    rack: str = ""

    def login(self) -> tuple[str, str] | None:
        """Name and password, or id and secret of an API key, as the file has them now; None without one."""
        key = self.key()
        if not key:
            return None
        name, mark, secret = key.partition(":" if ":" in key else ".")
        if not mark or not name or not secret:
            where = self.key_file or "the environment"
            raise PipelineError(f"The key from {where} is neither ID.SECRET nor USER:PASSWORD; put one of them there.")
        return name, secret

    def key(self) -> str:
        """As the file, or the environment, has it now; it may be a signed token."""
        if not self.key_file and (key := os.environ.get("GOQUEUE_KEY")):
            return key
        file = self.key_file or os.environ.get("GOQUEUE_KEY_FILE", "")
        return _first_line(file) if file else ""

    def headers(self) -> dict[str, str]:
        """Which show the key to a door over HTTP."""
        key = self.key()
        if not key:
            return {}
        shown = f"Basic {b64encode(key.encode()).decode()}" if ":" in key else f"Bearer {key}"
        return {"Authorization": shown}

    def authority(self) -> str:
        return self.ca_file or os.environ.get("GOQUEUE_CA_FILE", "")

    def certificate(self) -> tuple[str, str]:
        """Files with the certificate that is shown, and with its private key; nothing without one."""
        if self.cert_file:
            return self.cert_file, self.cert_key_file or self.cert_file
        file, key = os.environ.get("GOQUEUE_CERT_FILE", ""), os.environ.get("GOQUEUE_CERT_KEY_FILE", "")
        if key and not file:
            raise PipelineError(
                f"GOQUEUE_CERT_KEY_FILE ({key}) is the key of a certificate; set GOQUEUE_CERT_FILE too."
            )
        return file, key or file

    def objection(self) -> str:
        """Why a node may close a connection as soon as TLS is spoken: it gives no reason."""
        cert, _ = self.certificate()
        if cert:
            return f"it may not trust the client certificate in {cert}, see certFile"
        return "it may want a client certificate, see certFile"

    def client_rack(self) -> str:
        return self.rack or os.environ.get("GOQUEUE_RACK", "")

    def context(self) -> ssl.SSLContext | None:
        """For Kafka's door; None without TLS."""
        authority, (cert, key) = self.authority(), self.certificate()
        if not authority and not cert and not self.tls:
            return None
        return _context(authority, cert, key, tuple(map(_changed_ns, (authority, cert, key))))

    def client(self, url: str) -> Client:
        """Of the REST door."""
        from goqueue.client import Client

        self.context()  # which tells what is wrong with a file
        cert, key = self.certificate()
        return Client(
            url,
            key=self.key() or None,
            ca_file=self.authority() or None,
            cert=(cert, key) if cert else None,
        )


def _first_line(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(_KEY_BYTES_MAX)
        return data.partition(b"\n")[0].decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is no text"
        raise PipelineError(f"The key in {file} cannot be read ({what}); it has to be on this machine too.") from None


def _changed_ns(file: str) -> int:
    try:
        return Path(file).stat().st_mtime_ns if file else 0
    except OSError as error:
        raise _unusable(TlsFileUnusable(file, error)) from None


@lru_cache(maxsize=8)
def _context(authority: str, cert: str, key: str, changed_ns: tuple[int, ...]) -> ssl.SSLContext:
    """Made once for each content: it takes longer than a connection."""
    try:
        return client_context(authority, cert, key)
    except TlsFileUnusable as error:
        raise _unusable(error) from None


def _unusable(error: TlsFileUnusable) -> PipelineError:
    return PipelineError(
        f"{error}: caFile is the authority's certificate, certFile the client's, certKeyFile its private key, "
        "all in PEM."
    )


def with_identity(address: str, identity: NodeIdentity) -> str:
    """One that says already who it is stays so."""
    said = {
        KEY_FILE: identity.key_file,
        CA_FILE: identity.ca_file,
        TLS: "true" if identity.tls else "",
        MECHANISM: identity.mechanism if identity.mechanism != PLAIN else "",
        CERT_FILE: identity.cert_file,
        CERT_KEY_FILE: identity.cert_key_file,
        RACK: identity.rack,
    }
    told = {name: value for name, value in said.items() if value}
    return address if _MARK in address or not told else address + _MARK + urlencode(told)


def split_identity(address: str) -> tuple[str, NodeIdentity]:
    """The address as the network knows it, and who asks there."""
    bare, _, told = address.partition(_MARK)
    said = dict(parse_qsl(told))
    if unknown := sorted(said.keys() - _PARTS):
        known = ", ".join(sorted(_PARTS))
        raise PipelineError(f"{unknown[0][:40]!r} behind the # of an address is not known; these are: {known}.")
    mechanism = said.get(MECHANISM, PLAIN).upper()
    if mechanism not in MECHANISMS:
        raise PipelineError(f"The mechanism {mechanism[:40]!r} of an address is none of {', '.join(MECHANISMS)}.")
    if CERT_KEY_FILE in said and CERT_FILE not in said:
        raise PipelineError("certKeyFile of an address is the key of a certificate; name that by certFile.")
    return bare, NodeIdentity(
        said.get(KEY_FILE, ""),
        said.get(CA_FILE, ""),
        said.get(TLS) == "true",
        mechanism,
        said.get(CERT_FILE, ""),
        said.get(CERT_KEY_FILE, ""),
        said.get(RACK, ""),
    )


def node_client(url: str) -> Client:
    """A client of the REST door at an address that may say who asks."""
    bare, identity = split_identity(url)
    return identity.client(bare)
