"""The metadata store of a cluster: etcd, which keeps it for all nodes.

Every commit also writes one key that readers never see, so that it has a revision of its own even if it deletes what is
not there, and whoever waits for that revision sees it come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from goqueue.base.errors import MetadataConflict
from goqueue.base.metadata import Change, Commit, Entry, Revision, Snapshot, check_commit
from goqueue.drive.etcd_calls import RANGE, TXN, EtcdCalls, EtcdSettings
from goqueue.drive.etcd_session import EtcdLeases
from goqueue.drive.etcd_watch import EtcdWatch
from goqueue.drive.renewed_session import RenewedSession
from goqueue.wire import etcd_pb2 as etcd

_PAGE: Final = 200  # keys that are read at once
_HIDDEN: Final = "!"  # no key begins so


class EtcdMetadata:
    """A `Metadata`. `open` comes first."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._settings = settings
        self._prefix = settings.prefix.encode()
        self._keys = (self._prefix, _behind(self._prefix))
        self._calls = EtcdCalls(settings)
        self._leases = EtcdLeases(self._calls)
        self._newest: Revision = 0  # that was told
        self._sessions: list[RenewedSession] = []
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        await self._calls.check_version()

    async def read(self) -> Snapshot:
        """In pages, all as of the revision of the first."""
        entries: dict[str, Entry] = {}
        request = etcd.RangeRequest(key=self._prefix, range_end=self._keys[1], limit=_PAGE)
        while True:
            page = await self._calls.ask(RANGE, request)
            entries |= {one.key: one for one in map(self._entry, page.kvs)}
            request.revision = request.revision or page.header.revision
            if not page.more:
                break
            request.key = page.kvs[-1].key + b"\0"
        self._newest = request.revision  # less than before, if the store was set back
        shown = {key: entry for key, entry in entries.items() if not key.startswith(_HIDDEN)}
        return Snapshot(request.revision, shown)

    async def watch(self, after: Revision) -> AsyncIterator[Change]:
        parts = self._closing, self._entry, lambda: self._newest
        watch = EtcdWatch(self._calls, self._keys, self._settings.call_s, *parts)
        async for change in watch.changes(after):
            puts = [entry for entry in change.puts if not entry.key.startswith(_HIDDEN)]
            yield Change(change.revision, puts, change.deletes)

    async def commit(self, commit: Commit) -> Revision:
        check_commit(commit)
        answer = await self._calls.ask_once(TXN, self._request(commit))
        if not answer.succeeded:
            names = ", ".join(sorted({*commit.modified, *commit.created}))
            raise MetadataConflict(f"{names} was changed by somebody else; look again and decide anew.")
        self._newest = int(answer.header.revision)
        return self._newest

    def _request(self, commit: Commit) -> etcd.TxnRequest:
        expected = [self._modified(key, revision) for key, revision in commit.modified.items()]
        expected += [self._created(key, revision) for key, revision in commit.created.items()]
        session = commit.session or 0
        puts = [self._put(key, value, session) for key, value in commit.puts.items()]
        deletes = [etcd.Operation(delete=etcd.DeleteRequest(key=self._key(key))) for key in commit.deletes]
        return etcd.TxnRequest(compare=expected, success=[*puts, *deletes, self._put(_HIDDEN, "", 0)])

    def _modified(self, key: str, revision: Revision) -> etcd.Compare:
        return etcd.Compare(target=etcd.Compare.MOD, key=self._key(key), mod_revision=revision)

    def _created(self, key: str, revision: Revision) -> etcd.Compare:
        return etcd.Compare(target=etcd.Compare.CREATE, key=self._key(key), create_revision=revision)

    def _put(self, key: str, value: str, session: int) -> etcd.Operation:
        return etcd.Operation(put=etcd.PutRequest(key=self._key(key), value=value.encode(), lease=session))

    def _key(self, key: str) -> bytes:
        return self._prefix + key.encode()

    def _entry(self, found: etcd.KeyValue) -> Entry:
        key = found.key.removeprefix(self._prefix).decode(errors="replace")
        value = found.value.decode(errors="replace")
        return Entry(key, value, found.create_revision, found.mod_revision, found.lease or None)

    # --- sessions ------------------------------------------------------------------------------------------

    async def open_session(self) -> RenewedSession:
        session = await self._leases.begin(self._settings.session_s)
        self._sessions = [one for one in self._sessions if not one.is_lost] + [session]
        return session

    async def close(self) -> None:
        if self._closing.done():
            return
        self._closing.set_result(None)
        await asyncio.gather(*(session.end() for session in self._sessions))
        await self._calls.close()


def _behind(prefix: bytes) -> bytes:
    """The first key behind all that begin so."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
