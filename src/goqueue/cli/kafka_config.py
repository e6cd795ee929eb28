"""How commands show who they are at Kafka's door: settings out of a file, as Kafka's own tools take them."""

from __future__ import annotations

import re
import ssl
from typing import Any, Final

from goqueue.base.client_tls import TlsFileUnusable, client_context
from goqueue.cli.client_file import named_values
from goqueue.cli.connecting import BrokerTarget
from goqueue.cli.failures import Misused

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_JAAS: Final = re.compile(r"""\b(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*')""")
# The names of librdkafka, and those of Java's client that mean the same.
_NAMES: Final = {
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.jaas.config": "jaas",
    "ssl.ca.location": "ca",
    "ssl.truststore.location": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.keystore.location": "certificate",
    "ssl.key.location": "key",
}
_PEM: Final = ("ssl.truststore.type", "ssl.keystore.type")


def kafka_options(file: str | None) -> dict[str, Any]:
    """Arguments of aiokafka's clients, by a file of lines NAME=VALUE; none without a file."""
    if file is None:
        return {}
    told = _told(file)
    found: dict[str, Any] = {"security_protocol": _one_of(file, "security.protocol", told, "protocol", _PROTOCOLS)}
    if found["security_protocol"].startswith("SASL_"):
        found["sasl_mechanism"] = _one_of(file, "sasl.mechanism", told, "mechanism", _MECHANISMS)
        name, password = _login(file, told)
        found |= {"sasl_plain_username": name, "sasl_plain_password": password}
    if found["security_protocol"].endswith("SSL"):
        found["ssl_context"] = _context(file, told)
    return found


def identity_options(target: BrokerTarget) -> dict[str, Any]:
    """The same for a broker of ours: the key is shown by SASL PLAIN, to a node with a certificate of that authority."""
    from goqueue.client.transport import identity_of, tls_context

    identity = identity_of(target.key or None, target.ca_file or None)
    is_secret = target.server.startswith("https://")
    found: dict[str, Any] = {}
    if identity.key:
        name, _, password = identity.key.partition(":" if ":" in identity.key else ".")
        found = {"sasl_mechanism": "PLAIN", "sasl_plain_username": name, "sasl_plain_password": password}
    if is_secret:
        found["ssl_context"] = tls_context(identity)
    kind = ("SASL_" if identity.key else "") + ("SSL" if is_secret else "PLAINTEXT")
    return found | {"security_protocol": kind}


def _told(file: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in named_values(file, {*_NAMES, *_PEM}):
        if name in _NAMES:
            found[_NAMES[name]] = value
        elif value.upper() != "PEM":
            raise Misused(f"{file} says {name}={value[:40]}; certificates and keys have to be in PEM.")
    return found


def _one_of(file: str, name: str, told: dict[str, str], field: str, words: tuple[str, ...]) -> str:
    word = told.get(field, words[0]).upper()
    if word not in words:
        raise Misused(f"{name} in {file} is one of {', '.join(words)}, not {word[:40]!r}.")
    return word


def _login(file: str, told: dict[str, str]) -> tuple[str, str]:
    said = {name: value[1:-1].replace('\\"', '"') for name, value in _JAAS.findall(told.get("jaas", ""))}
    name, password = told.get("username", said.get("username")), told.get("password", said.get("password"))
    if not name or password is None:
        raise Misused(f"{file} names no sasl.username and sasl.password (or a sasl.jaas.config with both).")
    return name, password


def _context(file: str, told: dict[str, str]) -> ssl.SSLContext:
    if "key" in told and "certificate" not in told:
        raise Misused(f"ssl.key.location in {file} is the key of a certificate; name that by ssl.certificate.location.")
    try:
        return client_context(told.get("ca", ""), told.get("certificate", ""), told.get("key", ""))
    except TlsFileUnusable as error:
        raise Misused(f"{error}, and {file} names it; it has to be in PEM, and a private key not encrypted.") from None
