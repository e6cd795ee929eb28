"""How RabbitMQ is logged in to: an address, and a file of lines NAME=VALUE with what is secret."""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple

from goqueue.base.client_tls import TlsFileUnusable, client_context
from goqueue.cli.client_file import named_values
from goqueue.cli.failures import Misused

_NAMES: Final = (
    "username",
    "password",
    "virtual.host",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)
_PORTS: Final = {"amqp": 5672, "amqps": 5671}


class RabbitLogin(NamedTuple):
    host: str
    port: int
    username: str
    password: str
    virtual_host: str
    tls: ssl.SSLContext | None


def rabbit_login(address: str, file: str | None) -> RabbitLogin:
    """`address` is amqp://HOST[:PORT] or amqps://HOST[:PORT]. Without a file it is RabbitMQ's own user for trying,
    `guest`, who may come from the same machine alone."""
    scheme, _, place = address.partition("://")
    host, port = _host_and_port(place, _PORTS[scheme])
    told = {} if file is None else dict(named_values(file, _NAMES))
    tls = _context(file, told) if scheme == "amqps" else None
    if tls is None and any(name.startswith("ssl.") for name in told):
        raise Misused(f"{file} names certificates, which amqps:// has; {scheme}:// is sent in the clear.")
    user, password = told.get("username", "guest"), told.get("password", "guest")
    return RabbitLogin(host, port, user, password, told.get("virtual.host", "/"), tls)


def _host_and_port(place: str, default: int) -> tuple[str, int]:
    host, mark, port = place.rpartition(":")
    if not mark or place.endswith("]"):
        return place.strip("[]"), default
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise Misused(f"{place} has no port between 1 and 65535 behind its colon.")
    return host.strip("[]"), int(port)


def _context(file: str | None, told: dict[str, str]) -> ssl.SSLContext:
    if "ssl.key.location" in told and "ssl.certificate.location" not in told:
        raise Misused(f"ssl.key.location in {file} is the key of a certificate; name that by ssl.certificate.location.")
    files = (told.get(f"ssl.{name}.location", "") for name in ("ca", "certificate", "key"))
    try:
        return client_context(*files)
    except TlsFileUnusable as error:
        raise Misused(f"{error}, and {file} names it; it has to be in PEM, and a private key not encrypted.") from None
