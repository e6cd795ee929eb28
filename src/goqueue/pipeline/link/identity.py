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

from goqueue.base.limits import KIB
from goqueue.pipeline.link.errors import PipelineError

if TYPE_CHECKING:
    from goqueue.client import Client

KEY_FILE: Final = "keyFile"
CA_FILE: Final = "caFile"
TLS: Final = "tls"
MECHANISM: Final = "mechanism"
PLAIN: Final = "PLAIN"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
BEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *SCRAM, BEARER)
_KEY_BYTES_MAX: Final = 16 * KIB
_MARK: Final = "#"


class NodeIdentity(msgspec.Struct, frozen=True):
    """What is empty is as the environment says: GOQUEUE_KEY or GOQUEUE_KEY_FILE, GOQUEUE_CA_FILE. With an authority, or
    if `tls` says so, Kafka's door is spoken to by TLS. There the key is shown by `mechanism`."""

    key_file: str = ""
    ca_file: str = ""
    tls: bool = False
    mechanism: str = PLAIN

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

    def context(self) -> ssl.SSLContext | None:
        """For Kafka's door; None without TLS."""
        file = self.authority()
        if not file and not self.tls:
            return None
        try:
            return _context(file, Path(file).stat().st_mtime_ns if file else 0)
        except OSError as error:
            raise PipelineError(f"The authority in {file} cannot be read ({error.strerror or error}).") from None

    def client(self, url: str) -> Client:
        """Of the REST door."""
        from goqueue.client import Client

        return Client(url, key=self.key() or None, ca_file=self.authority() or None)


def _first_line(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(_KEY_BYTES_MAX)
        return data.partition(b"\n")[0].decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is no text"
        raise PipelineError(f"The key in {file} cannot be read ({what}); it has to be on this machine too.") from None


@lru_cache(maxsize=8)
def _context(file: str, changed_ns: int) -> ssl.SSLContext:
    """Made once for each content: it takes longer than a connection."""
    return ssl.create_default_context(cafile=file or None)


def with_identity(address: str, identity: NodeIdentity) -> str:
    """One that says already who it is stays so."""
    said = {KEY_FILE: identity.key_file, CA_FILE: identity.ca_file, TLS: "true" if identity.tls else ""}
    told = {name: value for name, value in said.items() if value}
    if identity.mechanism != PLAIN:
        told[MECHANISM] = identity.mechanism
    return address if _MARK in address or not told else address + _MARK + urlencode(told)


def split_identity(address: str) -> tuple[str, NodeIdentity]:
    """The address as the network knows it, and who asks there."""
    bare, _, told = address.partition(_MARK)
    said = dict(parse_qsl(told))
    if unknown := sorted(said.keys() - {KEY_FILE, CA_FILE, TLS, MECHANISM}):
        raise PipelineError(f"{unknown[0][:40]!r} behind the # of an address is not known; use keyFile and caFile.")
    mechanism = said.get(MECHANISM, PLAIN).upper()
    if mechanism not in MECHANISMS:
        raise PipelineError(f"The mechanism {mechanism[:40]!r} of an address is none of {', '.join(MECHANISMS)}.")
    return bare, NodeIdentity(said.get(KEY_FILE, ""), said.get(CA_FILE, ""), said.get(TLS) == "true", mechanism)


def node_client(url: str) -> Client:
    """A client of the REST door at an address that may say who asks."""
    bare, identity = split_identity(url)
    return identity.client(bare)
