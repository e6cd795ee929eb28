"""TLS of a listener: its certificate, which is read again when it changes, and handshakes, few at once and in time.

A handshake takes place before a door knows of the connection, so it has limits of its own: where too many are under
way, the oldest makes room. An honest one takes milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

import msgspec

from goqueue.base.begun import Begun
from goqueue.base.ids import Millis
from goqueue.base.limits import HANDSHAKE_SECONDS, HANDSHAKES_MAX
from goqueue.base.startup_errors import TlsUnusable
from goqueue.edge.security.expiry import expires_ms

logger = logging.getLogger(__name__)

ClientAuth: TypeAlias = Literal["none", "optional", "required"]
_SHUTDOWN_S: Final = 5.0
_EARLY_BYTES_MAX: Final = 1 << 20
_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class TlsFiles(msgspec.Struct, frozen=True):
    """Paths of PEM files. `client_ca` signs the certificates that clients show."""

    cert: str
    key: str
    client_ca: str = ""
    client_auth: ClientAuth = "none"

    def context(self) -> ssl.SSLContext:
        """`TlsUnusable` if a file is not right."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        try:
            context.load_cert_chain(self.cert, self.key or None, password=lambda: "")
            if self.client_ca:
                context.load_verify_locations(self.client_ca)
        except (OSError, ValueError) as error:
            named = ", ".join(self._named())
            raise TlsUnusable(f"TLS cannot use {named}: {getattr(error, 'strerror', None) or error}.") from None
        context.verify_mode = _VERIFY[self.client_auth]
        return context

    def expires_ms(self) -> Millis | None:
        """When the certificate is no longer valid; None if that cannot be read."""
        try:
            return expires_ms(Path(self.cert).read_text())
        except (OSError, ValueError):
            return None

    def _named(self) -> Iterable[str]:
        return filter(None, (self.cert, self.key, self.client_ca))

    def stamps(self) -> list[tuple[int, int, int]]:
        """Other ones if a file was changed or replaced."""
        found = [Path(name).stat() for name in self._named()]
        return [(one.st_mtime_ns, one.st_ino, one.st_size) for one in found]


class TlsContext:
    """What connections are made with from now on. Those that are open keep what they were made with."""

    def __init__(self, files: TlsFiles) -> None:
        """`TlsUnusable` if a file is not right."""
        self.files = files
        self.current = files.context()
        self.expires_ms = files.expires_ms()
        self._seen = files.stamps()

    def look(self) -> None:
        """Takes over files that were changed; what is not right yet is tried again."""
        try:
            stamps = self.files.stamps()
        except OSError:
            return  # a file is being replaced
        if stamps != self._seen:
            self.reload()

    def reload(self) -> None:
        try:
            stamps = self.files.stamps()
            self.current = self.files.context()
            self.expires_ms = self.files.expires_ms()
        except (OSError, TlsUnusable) as error:
            logger.error("the new certificate is not used", extra={"error": str(error)})
            return
        self._seen = stamps
        logger.info("certificate loaded", extra={"file": self.files.cert})


class Handshakes:
    """One door's. `refused` is told why one came to nothing."""

    def __init__(self, context: TlsContext, refused: Callable[[str], None]) -> None:
        self._context = context
        self._refused = refused
        self._under_way: dict[_Handshake, None] = {}

    def protocol(self, make: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """Of a connection that has just come; `make` makes the one that it gets behind its handshake."""
        return _Handshake(self, make)

    def begin(self, one: _Handshake) -> ssl.SSLContext:
        if len(self._under_way) >= HANDSHAKES_MAX:
            next(iter(self._under_way)).give_up("handshakes")
        self._under_way[one] = None
        return self._context.current

    def end(self, one: _Handshake, why: str = "") -> None:
        self._under_way.pop(one, None)
        if why:
            self._refused(why)


class _Handshake(asyncio.Protocol):
    """Stands in until the connection is safe: what comes right behind the handshake is handed on."""

    def __init__(self, door: Handshakes, make: Callable[[], asyncio.Protocol]) -> None:
        self._door = door
        self._make = make
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._early = b""
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._task is not None:
            return  # the same connection again, now safe
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        # Begun at once: from here on the transport reads, and every byte belongs to the handshake.
        begun = Begun(
            loop.start_tls(
                self._transport,
                self,
                self._door.begin(self),
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        )
        self._task = loop.create_task(self._shake(self._transport, begun))

    async def _shake(self, transport: asyncio.Transport, begun: Begun[asyncio.Transport | None]) -> None:
        try:
            safe = await begun
        except OSError as error:  # of TLS too
            logger.debug("handshake failed", extra={"error": str(error)})
            self.give_up("handshake")
            return
        self._door.end(self)
        if safe is None or self._is_lost:
            transport.abort()
            return
        self._hand_on(safe)

    def _hand_on(self, safe: asyncio.Transport) -> None:
        inner = self._make()
        safe.set_protocol(inner)
        inner.connection_made(safe)
        if self._early and not safe.is_closing():
            inner.data_received(self._early)

    def give_up(self, why: str) -> None:
        self._door.end(self, why)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._early += data
        if len(self._early) > _EARLY_BYTES_MAX:
            self.give_up("handshake")

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
