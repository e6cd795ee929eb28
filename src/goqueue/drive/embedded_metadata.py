"""The metadata store of a node that is alone: a file for each key, in the data directory.

A commit of one key replaces or removes its file. One of several is first noted whole in one file, which is the moment
that it is done, and then carried out; a start finishes what is noted. Keys of a session are kept in memory: they end
with the process. A removal needs no room on the disk. What cannot be read is reported and left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import msgspec

from goqueue.base.metadata import Change, Commit, Entry, Revision, Snapshot
from goqueue.core.cluster.store_state import StoreState
from goqueue.drive.carry_on import carry_on
from goqueue.drive.offload import Offload
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.home import refused_when_full, unless_full

logger = logging.getLogger(__name__)

HOME: Final = "metadata"
_SUFFIX: Final = ".v"  # short: with that of an unfinished write it fits behind the longest name
_PENDING: Final = f"{HOME}/commit"
_STARTS: Final = f"{HOME}/starts"
_REVISIONS_PER_START: Final = 1 << 32


class _Starts(msgspec.Struct, frozen=True):
    """How often the store was opened: revisions never come again, not even those of keys that left no file."""

    count: int


class _Session:
    def __init__(self, store: EmbeddedMetadata, session_id: int) -> None:
        self._store = store
        self.id = session_id

    @property
    def is_lost(self) -> bool:
        return not self._store.is_open(self.id)

    async def end(self) -> None:
        await self._store.end_session(self.id)


class EmbeddedMetadata:
    """A `Metadata`. One change at a time; files are touched off the loop."""

    def __init__(self, disk: Disk, offload: Offload) -> None:
        self._disk = disk
        self._offload = offload
        self._state = StoreState()
        self._changing = asyncio.Lock()
        self._changed = asyncio.Event()  # replaced with every change
        self._unfinished: Change | None = None  # noted, not yet carried out
        self._closed = False

    async def open(self) -> None:
        """Before anything else."""
        self._state = await self._offload(self._load)

    async def read(self) -> Snapshot:
        return self._state.read()

    async def watch(self, after: Revision) -> AsyncGenerator[Change, None]:
        while not self._closed:
            changed = self._changed
            for change in self._state.changes(after):
                after = change.revision
                yield change
            await changed.wait()

    async def commit(self, commit: Commit) -> Revision:
        """Files and memory say the same, though the caller may go away meanwhile."""
        return await carry_on(self._commit(commit))

    async def _commit(self, commit: Commit) -> Revision:
        async with self._changing:
            change = self._state.decide(commit)
            await self._offload(lambda: self._store(change))
            self._apply(change)
            return change.revision

    def _apply(self, change: Change) -> None:
        self._state.apply(change)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def quiet(self) -> asyncio.Lock:
        """While it is held, the files are of one moment."""
        return self._changing

    async def open_session(self) -> _Session:
        return _Session(self, self._state.begin_session())

    def is_open(self, session: int) -> bool:
        return self._state.is_open(session)

    async def end_session(self, session: int) -> None:
        async with self._changing:
            if (change := self._state.end_session(session)) is not None:
                self._apply(change)

    async def close(self) -> None:
        self._closed = True
        self._wake()

    # --- files ---------------------------------------------------------------------------------------------

    def _load(self) -> StoreState:
        self._disk.make_dirs(HOME)
        self._disk.sync_dir("")
        self._unfinished = decode_crc_json(self._disk.read_file(_PENDING), Change)
        if self._unfinished is not None:
            self._try_to_finish(self._unfinished)
        known = decode_crc_json(self._disk.read_file(_STARTS), _Starts) or _Starts(0)
        with unless_full():
            self._disk.write_file(_STARTS, encode_crc_json(_Starts(known.count + 1)))
        entries = {entry.key: entry for entry in self._read_all()}
        if self._unfinished is not None:
            entries |= {entry.key: entry for entry in self._unfinished.puts}
            entries = {key: entry for key, entry in entries.items() if key not in self._unfinished.deletes}
        return StoreState(entries.values(), (known.count + 1) * _REVISIONS_PER_START)

    def _read_all(self) -> list[Entry]:
        found: list[Entry] = []
        for name in self._disk.names(HOME):
            if name.endswith(_SUFFIX):
                found += self._read_one(name)
            elif self._disk.is_dir(f"{HOME}/{name}"):
                for inner in self._disk.names(f"{HOME}/{name}"):
                    found += self._read_one(f"{name}/{inner}")
        return found

    def _read_one(self, file: str) -> list[Entry]:
        path = f"{HOME}/{file}"
        if file.endswith(_SUFFIX + ".tmp"):
            self._disk.remove(path)  # a write that a crash interrupted
            return []
        entry = decode_crc_json(self._disk.read_file(path), Entry)
        if entry is None or entry.key + _SUFFIX != file:
            logger.error("not metadata, left alone", extra={"path": path})
            return []
        return [entry]

    def _store(self, change: Change) -> None:
        """`DiskFull` if there is no room, and then everything is as before."""
        durable = self._durable(change)
        with refused_when_full():
            if self._unfinished is not None:
                self._finish(self._unfinished)
            if len(durable.puts) + len(durable.deletes) <= 1:
                self._carry_out(durable)
                return
            self._disk.write_file(_PENDING, encode_crc_json(durable))
        self._unfinished = durable
        self._try_to_finish(durable)

    def _durable(self, change: Change) -> Change:
        """Without the keys of sessions; a key that becomes one leaves no file behind."""
        bound = [entry.key for entry in change.puts if entry.session is not None]
        puts = [entry for entry in change.puts if entry.session is None]
        gone = [key for key in (*change.deletes, *bound) if self._has_file(key)]
        return Change(change.revision, puts, gone)

    def _has_file(self, key: str) -> bool:
        entry = self._state.get(key)
        return entry is not None and entry.session is None

    def _try_to_finish(self, change: Change) -> None:
        """It is done in any case: what is noted is carried out before the next change, or by the next start."""
        try:
            self._finish(change)
        except OSError as error:
            logger.error("a change of metadata is noted, and carried out later", extra={"error": str(error)})

    def _finish(self, change: Change) -> None:
        self._carry_out(change)
        self._disk.remove(_PENDING)
        self._disk.sync_dir(HOME)  # it must not come back over what is changed later
        self._unfinished = None

    def _carry_out(self, change: Change) -> None:
        for entry in change.puts:
            self._make_home(entry.key)
            self._disk.write_file(file_of(entry.key), encode_crc_json(entry))
        for key in change.deletes:
            self._disk.remove(file_of(key))
        for directory in _directories(change.deletes):
            if self._disk.is_dir(directory):
                self._disk.sync_dir(directory)

    def _make_home(self, key: str) -> None:
        directory = file_of(key).rpartition("/")[0]
        if not self._disk.is_dir(directory):
            self._disk.make_dirs(directory)
            self._disk.sync_dir(HOME)


def file_of(key: str) -> str:
    """In the data directory."""
    return f"{HOME}/{key}{_SUFFIX}"


def _directories(keys: Sequence[str]) -> list[str]:
    return sorted({file_of(key).rpartition("/")[0] for key in keys})
