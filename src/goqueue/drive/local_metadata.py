"""The metadata of a machine that runs several nodes: one process keeps it for all (`drive/served_metadata.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

import msgspec

from goqueue.base.decoders import from_msgpack
from goqueue.base.errors import PeerLost, PeerOutOfReach, StoreOutOfReach
from goqueue.base.metadata import Change, Commit, Entry, Revision, Snapshot, WatchedTooLate, check_commit
from goqueue.drive.peers import Link
from goqueue.drive.renewed_session import RenewedSession, passed_s
from goqueue.drive.served_metadata import (
    COMMIT,
    END_SESSION,
    OPEN_SESSION,
    READ,
    RENEW,
    WATCH,
    WATCH_S,
    EntryPage,
    PageAsk,
    SessionAsk,
    SessionReply,
    WatchAsk,
    WatchReply,
)

SCHEME: Final = "local://"  # of `cluster.store`, as the supervisor tells its processes
CLUSTER: Final = "processes"  # that both sides name in their first word
KEEPER: Final = -1  # the number by which the process that keeps the store is known; no node has it
_CALL_S: Final = 5.0

T = TypeVar("T")


class LocalMetadata:
    """A `Metadata`."""

    def __init__(self, link: Link, session_s: float) -> None:
        self._link = link
        self._session_s = session_s
        self._sessions: list[RenewedSession] = []
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        """`StoreOutOfReach` if nobody keeps it."""
        await self._ask(READ, PageAsk(), EntryPage)

    async def read(self) -> Snapshot:
        entries: dict[str, Entry] = {}
        after = ""
        while True:
            page = await self._ask(READ, PageAsk(after), EntryPage)
            entries |= {entry.key: entry for entry in page.entries}
            if page.is_last:
                return Snapshot(page.revision, entries)
            after = page.entries[-1].key

    async def watch(self, after: Revision) -> AsyncIterator[Change]:
        while not self._closing.done():
            asking = asyncio.ensure_future(self._ask(WATCH, WatchAsk(after), WatchReply, WATCH_S + _CALL_S))
            either: list[asyncio.Future[Any]] = [asking, self._closing]
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not asking.done():
                    asking.cancel()
            if not asking.done() or asking.cancelled():
                return
            reply = asking.result()
            if reply.is_too_late:
                raise WatchedTooLate(f"Changes behind revision {after} are no longer known one by one.")
            for change in reply.changes:
                after = change.revision
                yield change

    async def commit(self, commit: Commit) -> Revision:
        check_commit(commit)
        return await self._ask(COMMIT, commit, int)

    # --- sessions ----------------------------------------------------------------------------------------------

    async def open_session(self) -> RenewedSession:
        sent = passed_s()
        granted = await self._ask(OPEN_SESSION, SessionAsk(self._session_s), SessionReply)
        session = RenewedSession(self, granted.id, granted.left_s, sent)
        self._sessions = [one for one in self._sessions if not one.is_lost] + [session]
        return session

    async def keep_alive(self, session: int, within_s: float) -> float:
        return (await self._ask(RENEW, session, SessionReply, max(within_s, 0.5))).left_s

    async def revoke(self, session: int) -> None:
        await self._call(END_SESSION, session, _CALL_S)

    async def close(self) -> None:
        if self._closing.done():
            return
        self._closing.set_result(None)
        await asyncio.gather(*(session.end() for session in self._sessions))
        self._link.close()

    # --- calls -------------------------------------------------------------------------------------------------

    async def _ask(self, verb: str, ask: object, kind: type[T], within_s: float = _CALL_S) -> T:
        return from_msgpack(await self._call(verb, ask, within_s), kind)

    async def _call(self, verb: str, ask: object, within_s: float) -> bytes:
        try:
            return await self._link.call(verb, msgspec.msgpack.encode(ask), within_s)
        except (PeerOutOfReach, PeerLost) as error:
            raise StoreOutOfReach(f"The process that keeps the metadata does not answer: {error.message}") from error
