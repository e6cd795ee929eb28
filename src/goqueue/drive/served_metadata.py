"""What one process keeps of the metadata for the others on its machine: the verbs of its store, by name, as bytes.

There is one owner, so nothing is voted on. A session lasts as long as it is renewed; whoever knows that a process is
gone ends its sessions at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Final

import msgspec

from goqueue.base.decoders import from_msgpack
from goqueue.base.errors import InvalidField
from goqueue.base.metadata import Change, Commit, Entry, Revision, Snapshot, WatchedTooLate
from goqueue.drive.background_tasks import BackgroundTasks
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.drive.peers import PeerVerb
from goqueue.wire.node_frames import Hello

logger = logging.getLogger(__name__)

READ, WATCH, COMMIT = "store.read", "store.watch", "store.commit"
OPEN_SESSION, RENEW, END_SESSION = "store.session", "store.renew", "store.end"
WATCH_S: Final = 10.0  # that a watch waits for a change before it is asked again
SESSIONS_MAX: Final = 64  # of one node; it has one, and for a moment two
_PAGE_CHARS: Final = 4 << 20
_REAP_S: Final = 0.1


class PageAsk(msgspec.Struct, frozen=True):
    """The first page is of the store as it is; others go on behind a key of that."""

    after: str = ""


class EntryPage(msgspec.Struct, frozen=True):
    revision: Revision
    entries: Sequence[Entry]
    is_last: bool


class WatchAsk(msgspec.Struct, frozen=True):
    after: Revision


class WatchReply(msgspec.Struct, frozen=True):
    """Nothing, if nothing changed for a while."""

    changes: Sequence[Change] = ()
    is_too_late: bool = False


class SessionAsk(msgspec.Struct, frozen=True):
    length_s: float


class SessionReply(msgspec.Struct, frozen=True):
    """What is left of it; 0 if it is no more."""

    id: int
    left_s: float


class _Lease(msgspec.Struct):
    node: int
    length_s: float
    until: float


class ServedMetadata:
    """`start` when the store is open. The loop's clock counts sessions: one that stood still ends them all."""

    def __init__(self, store: EmbeddedMetadata) -> None:
        self._store = store
        self._leases: dict[int, _Lease] = {}
        self._readings: dict[int, Snapshot] = {}  # that a node is reading page by page
        self._tasks = BackgroundTasks("sessions with the metadata store")

    @property
    def verbs(self) -> Mapping[str, PeerVerb]:
        return {
            READ: self._read,
            WATCH: self._watch,
            COMMIT: self._commit,
            OPEN_SESSION: self._open_session,
            RENEW: self._renew,
            END_SESSION: self._end_session,
        }

    def start(self) -> None:
        self._tasks.spawn(self._reap())

    async def stop(self) -> None:
        await self._tasks.stop()

    async def node_gone(self, node: int) -> None:
        """Its process has ended: nobody waits until its session runs out."""
        self._readings.pop(node, None)
        for session in [one for one, lease in self._leases.items() if lease.node == node]:
            await self._end(session)

    # --- what is there -----------------------------------------------------------------------------------------

    async def _read(self, peer: Hello, body: bytes) -> bytes:
        ask = from_msgpack(body, PageAsk)
        if not ask.after:
            self._readings[peer.node_id] = await self._store.read()
        snapshot = self._readings.get(peer.node_id)
        if snapshot is None:
            raise InvalidField("A reading begins with its first page.", field="after")
        page = _page(snapshot, ask.after)
        if page.is_last:
            del self._readings[peer.node_id]
        return msgspec.msgpack.encode(page)

    async def _watch(self, peer: Hello, body: bytes) -> bytes:
        ask = from_msgpack(body, WatchAsk)
        return msgspec.msgpack.encode(await self._next(ask.after))

    async def _next(self, after: Revision) -> WatchReply:
        try:
            async with asyncio.timeout(WATCH_S), aclosing(self._store.watch(after)) as changes:
                async for change in changes:
                    return WatchReply([change])
        except WatchedTooLate:
            return WatchReply(is_too_late=True)
        except TimeoutError:
            pass
        return WatchReply()

    async def _commit(self, peer: Hello, body: bytes) -> bytes:
        return msgspec.msgpack.encode(await self._store.commit(from_msgpack(body, Commit)))

    # --- sessions ----------------------------------------------------------------------------------------------

    async def _open_session(self, peer: Hello, body: bytes) -> bytes:
        ask = from_msgpack(body, SessionAsk)
        if sum(lease.node == peer.node_id for lease in self._leases.values()) >= SESSIONS_MAX:
            raise InvalidField(f"Node {peer.node_id} has {SESSIONS_MAX} sessions; end some.", field="session")
        length_s = min(max(ask.length_s, 0.1), 300.0)
        session = await self._store.open_session()
        self._leases[session.id] = _Lease(peer.node_id, length_s, _now() + length_s)
        return msgspec.msgpack.encode(SessionReply(session.id, length_s))

    async def _renew(self, peer: Hello, body: bytes) -> bytes:
        session = from_msgpack(body, int)
        lease = self._leases.get(session)
        if lease is None or lease.node != peer.node_id or _now() >= lease.until:
            return msgspec.msgpack.encode(SessionReply(session, 0))
        lease.until = _now() + lease.length_s
        return msgspec.msgpack.encode(SessionReply(session, lease.length_s))

    async def _end_session(self, peer: Hello, body: bytes) -> bytes:
        session = from_msgpack(body, int)
        lease = self._leases.get(session)
        if lease is not None and lease.node == peer.node_id:
            await self._end(session)
        return b""

    async def _end(self, session: int) -> None:
        if self._leases.pop(session, None) is not None:
            await self._store.end_session(session)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_REAP_S)
            for session, lease in list(self._leases.items()):
                if _now() >= lease.until:
                    logger.warning("a process does not renew its session; it is over", extra={"node": lease.node})
                    await self._end(session)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _page(snapshot: Snapshot, after: str) -> EntryPage:
    """One entry at least, and then as many as a page takes."""
    chosen: list[Entry] = []
    room = _PAGE_CHARS
    for key in sorted(key for key in snapshot.entries if key > after):
        if chosen and room <= 0:
            return EntryPage(snapshot.revision, chosen, is_last=False)
        chosen.append(snapshot.entries[key])
        room -= len(key) + len(snapshot.entries[key].value)
    return EntryPage(snapshot.revision, chosen, is_last=True)
