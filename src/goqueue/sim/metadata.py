"""A metadata store in memory that several simulated nodes share, each through a client of its own.

It can be slow, out of reach, answer a commit that it did with silence, lose a session whose node lives, and hold
watches back. Time is the loop's, so that a run on a virtual loop is the same every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from goqueue.base.errors import StoreOutOfReach
from goqueue.base.metadata import Change, Commit, Revision, Snapshot
from goqueue.core.cluster.store_state import StoreState


class SimSession:
    def __init__(self, store: SimMetadataStore, session_id: int) -> None:
        self._store = store
        self.id = session_id

    @property
    def is_lost(self) -> bool:
        return not self._store.state.is_open(self.id)

    async def end(self) -> None:
        self._store.end_session(self.id)


class SimMetadataStore:
    """The contents, and what all clients wait for."""

    def __init__(self) -> None:
        self.state = StoreState()
        self.on_change: Callable[[Change], None] = lambda _: None
        self._changed = asyncio.Event()

    def client(self) -> SimMetadata:
        return SimMetadata(self)

    def commit(self, commit: Commit) -> Revision:
        change = self.state.decide(commit)
        self._apply(change)
        return change.revision

    def end_session(self, session: int) -> None:
        """Also of a node that lives and does not know it."""
        if (change := self.state.end_session(session)) is not None:
            self._apply(change)

    def _apply(self, change: Change) -> None:
        self.state.apply(change)
        self.on_change(change)
        self.wake()

    def wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def next_change(self) -> asyncio.Event:
        return self._changed


class SimMetadata:
    """A `Metadata`, as one node reaches it."""

    def __init__(self, store: SimMetadataStore) -> None:
        self._store = store
        self._sessions: list[int] = []
        self._closed = False
        self.delay_s = 0.0
        self.is_cut_off = False
        self.loses_answers = False  # a commit is done, and its answer never comes
        self.watches_stale = False
        self.watch_gap_s = 0.0  # between two changes of which it hears

    async def _reach(self) -> None:
        await asyncio.sleep(self.delay_s)
        if self.is_cut_off:
            raise StoreOutOfReach("The metadata store cannot be reached; try again.")

    async def read(self) -> Snapshot:
        await self._reach()
        return self._store.state.read()

    async def watch(self, after: Revision) -> AsyncIterator[Change]:
        while not self._closed:
            changed = self._store.next_change()
            if not self.watches_stale:
                await self._reach()
                for change in self._store.state.changes(after):
                    after = change.revision
                    yield change
                    if self.watch_gap_s:
                        await asyncio.sleep(self.watch_gap_s)
            await changed.wait()

    async def commit(self, commit: Commit) -> Revision:
        await self._reach()
        revision = self._store.commit(commit)
        if self.loses_answers:
            raise StoreOutOfReach("The answer of the metadata store did not come.")
        return revision

    async def open_session(self) -> SimSession:
        await self._reach()
        session = SimSession(self._store, self._store.state.begin_session())
        self._sessions.append(session.id)
        return session

    def show(self) -> None:
        """The watch goes on."""
        self.watches_stale = False
        self._store.wake()

    @property
    def has_session(self) -> bool:
        """As the store sees it."""
        return any(map(self._store.state.is_open, self._sessions))

    def lose_sessions(self) -> None:
        """The store has not heard of this node for too long, or believes so."""
        for session in self._sessions:
            self._store.end_session(session)

    async def close(self) -> None:
        self._closed = True
        self.lose_sessions()
        self._store.wake()
