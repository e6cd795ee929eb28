"""What a node's doors need to know who comes in, put together from the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from goqueue.base.ids import Millis
from goqueue.base.security_settings import DoorTls, SecuritySettings, is_loopback
from goqueue.base.settings import Settings, parse_address
from goqueue.base.startup_errors import TlsUnusable, Unprotected
from goqueue.drive.fair_turns import FairTurns
from goqueue.drive.repeating import Repeating
from goqueue.edge.kafka.calls import KafkaPeer
from goqueue.edge.kafka.connection import KafkaConnection, Serve
from goqueue.edge.kafka.listener import KafkaEntrance
from goqueue.edge.kafka.sasl import KafkaLogin, known_only
from goqueue.edge.security.certificates import CertificateNames
from goqueue.edge.security.http_login import HttpLogin
from goqueue.edge.security.tls import Handshakes, TlsContext, TlsFiles
from goqueue.edge.sqs.signatures import SqsLogin
from goqueue.service.authentication import Authentication
from goqueue.service.principals import Principal

_LOOK_S: Final = 2.0  # at certificates


class NodeTls:
    """The certificates of all doors. `Unprotected` or `TlsUnusable` if the node must not start with them."""

    def __init__(self, settings: Settings) -> None:
        self._doors: Mapping[str, DoorTls] = {
            "rest": settings.rest,
            "kafka": settings.kafka,
            "sqs": settings.sqs,
            "grpc": settings.grpc,
        }
        _check_exposed(settings)
        files = {door: _files(settings.security, one) for door, one in self._doors.items()}
        known = {one: TlsContext(one) for one in set(files.values()) if one is not None}
        self._contexts = {door: known[one] for door, one in files.items() if one is not None}
        self._all = list(known.values())
        self._looking = Repeating(_LOOK_S, self._look)

    @property
    def doors(self) -> frozenset[str]:
        """Those that speak TLS."""
        return frozenset(self._contexts)

    def handshakes(self, door: str, refused: Callable[[str], None]) -> Handshakes | None:
        return Handshakes(self._contexts[door], refused) if door in self._contexts else None

    def context(self, door: str) -> TlsContext | None:
        """Of a door whose handshakes are not ours."""
        return self._contexts.get(door)

    def expiries(self) -> dict[str, Millis]:
        """Until when the certificate of each door holds."""
        return {door: one.expires_ms for door, one in self._contexts.items() if one.expires_ms is not None}

    def start(self) -> None:
        if self._all:
            self._looking.start()

    async def stop(self) -> None:
        await self._looking.stop()

    def reload(self) -> None:
        for one in self._all:
            one.reload()

    async def _look(self) -> None:
        for one in self._all:
            one.look()


class NodeLogins:
    """How each door learns who asks. Doors that let everybody in have none."""

    def __init__(self, who: Authentication, turns: FairTurns) -> None:
        self._who = who
        self._turns = turns
        self._is_on = who.settings.is_on
        self._names = CertificateNames(who.settings)

    def rest(self) -> HttpLogin | None:
        return self._http("rest") if self._is_on else None

    def grpc(self) -> HttpLogin | None:
        return self._http("grpc") if self._is_on else None

    def sqs(self) -> SqsLogin | None:
        return SqsLogin(self._http("sqs"), self._who) if self._is_on else None

    def _http(self, door: str) -> HttpLogin:
        return HttpLogin(door, self._who, self._names, self._turns)

    def kafka(self, serve: Serve, tls: Handshakes | None) -> KafkaEntrance:
        if not self._is_on:
            return KafkaEntrance(serve, tls=tls)
        return KafkaEntrance(known_only(serve), self._kafka_login, tls, self._turns)

    def _kafka_login(self, transport: asyncio.BaseTransport, peer: KafkaPeer, at: KafkaConnection) -> KafkaLogin:
        login = KafkaLogin(self._who, peer, at)
        if name := self._names.of(transport):
            one = self._who.principals.placed(Principal(name))
            if self._who.principals.holds(one):
                login.certified(one)
        return login


def _check_exposed(settings: Settings) -> None:
    """Whoever can reach the node may do everything, unless it asks who they are."""
    if settings.security.is_on or settings.security.insecure == "on":
        return
    listens = {f"{door}.listen": getattr(settings, door).listen for door in ("rest", "kafka", "sqs", "grpc")}
    for name, listen in {**listens, "kafka.external_listen": settings.kafka.external_listen}.items():
        address = parse_address(listen)
        if address is not None and not is_loopback(address[0]):
            raise Unprotected(
                f"{name} is {listen}, which other machines can reach, and nobody has to show who they are. "
                "Set security.authentication to required and add a user (see docs/security.md), or listen on "
                "127.0.0.1; --insecure starts the node as it is.",
                field=name,
            )


def _files(common: SecuritySettings, door: DoorTls) -> TlsFiles | None:
    cert = door.tls_cert_file or common.tls_cert_file
    if cert in ("", "off"):
        return None
    key = door.tls_key_file or common.tls_key_file
    ca = door.tls_client_ca_file or common.tls_client_ca_file
    auth = common.tls_client_auth if door.tls_client_auth == "inherit" else door.tls_client_auth
    if auth != "none" and not ca:
        raise TlsUnusable("tls_client_auth asks for certificates; name who signs them in tls_client_ca_file.")
    return TlsFiles(cert, key, ca, auth)
