"""A disk in memory that can lose power at any write or sync.

It keeps apart what is durable and what is only pending: a file's bytes become durable with `sync`, a name with
`sync_dir`. `crash` returns the disk as it may be found afterwards: pending writes and names kept, dropped, or
torn, where each is kept, lost or cut short by a seeded chance. It can also be too small, fail to sync, or be full from
a chosen write on: `full_at` counts the calls that need space, and a write in place that finds none has written a part.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from typing import Final, Literal

from goqueue.format.batch import Buffer
from goqueue.log.disk import Usage

CrashMode = Literal["kept", "dropped", "torn"]
_ENDLESS: Final = 1 << 40


class PowerCut(BaseException):
    """The power went; nothing in the broker may catch this."""


class _Inode:
    """A file's bytes: safe ones, and writes and cuts since."""

    def __init__(self, data: bytes = b"") -> None:
        self.safe = data
        self.now = bytearray(data)
        self.pending: list[tuple[int, bytes | None]] = []  # (position, bytes), or (size, None) for a cut

    def write(self, position: int, data: bytes) -> None:
        self.pending.append((position, data))
        _put(self.now, position, data)

    def truncate(self, size: int) -> None:
        self.pending.append((size, None))
        del self.now[size:]

    def sync(self) -> None:
        self.safe, self.pending = bytes(self.now), []

    def after_crash(self, mode: CrashMode, chance: random.Random) -> bytes:
        if mode == "kept":
            return bytes(self.now)
        data = bytearray(self.safe)
        for position, written in self.pending if mode == "torn" else ():
            fate = chance.choice(("kept", "lost", "short"))
            if fate == "lost":
                continue
            if written is None:
                del data[position:]
            else:
                _put(data, position, written if fate == "kept" else written[: chance.randrange(len(written) + 1)])
        return bytes(data)


def _put(data: bytearray, position: int, written: bytes) -> None:
    if position > len(data):
        data.extend(bytes(position - len(data)))
    data[position : position + len(written)] = written


class SimFile:
    """An open file of the simulated disk."""

    def __init__(self, disk: SimDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode

    @property
    def size(self) -> int:
        return len(self._inode.now)

    def append(self, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        self._disk.take_space(len(data))
        self._inode.write(self.size, data)
        self._disk.step()

    def write(self, position: int, data: Buffer) -> None:
        self._disk.take_space(max(0, position + len(data) - self.size))
        self._inode.write(position, bytes(data))
        self._disk.step()

    def append_part(self, data: bytes) -> None:
        """What a write leaves that ran out of space half way."""
        self._inode.write(self.size, data)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self._inode.now[position : position + size])

    def read_cached(self, position: int, size: int) -> bytes | None:
        return None if self._disk.is_cold else self.read(position, size)

    def sync(self) -> None:
        self._disk.step()
        if self._disk.fails_sync:
            raise OSError(errno.EIO, "simulated sync failure")
        self._inode.sync()

    def truncate(self, size: int) -> None:
        self._inode.truncate(size)
        self._disk.step()


_Names = dict[str, _Inode | None]  # a directory has no inode
_Change = tuple[str, _Inode | None, bool]  # path, what it names, whether it is there


class SimDisk:
    """See the module's first lines. `crash_at` counts writes and syncs; -1 never crashes."""

    def __init__(self, crash_at: int = -1, capacity_bytes: int = _ENDLESS) -> None:
        self.crash_at = crash_at
        self.capacity_bytes = capacity_bytes
        self.steps = 0
        self.full_at = -1
        self.space_calls = 0
        self.fails_sync = False
        self.out_of_files = False
        self.is_cold = False
        self.on_power_cut: Callable[[], None] = lambda: None
        self._safe: _Names = {"": None}
        self._names: _Names = {"": None}
        self._pending: list[list[_Change]] = []

    # --- the fault side ------------------------------------------------------------------------------------

    def step(self) -> None:
        """Counts a write or sync, and cuts the power at the appointed one."""
        if self.steps == self.crash_at:
            self.on_power_cut()
            raise PowerCut
        self.steps += 1

    def take_space(self, size: int) -> None:
        self.space_calls += 1
        is_bounded = self.capacity_bytes < _ENDLESS  # a sum over all files takes time
        if 0 <= self.full_at < self.space_calls or (is_bounded and self._used() + size > self.capacity_bytes):
            raise OSError(errno.ENOSPC, "simulated disk is full")

    def free_space(self) -> None:
        """There is room again."""
        self.full_at = -1

    def crash(self, mode: CrashMode, seed: int = 0) -> SimDisk:
        """The disk as the next start finds it."""
        chance = random.Random(seed)
        names = dict(self._safe)
        for changes in self._pending:
            if mode == "kept" or (mode == "torn" and chance.random() < 0.5):
                _apply(names, changes)
        after = SimDisk(capacity_bytes=self.capacity_bytes)
        fresh: dict[int, _Inode] = {}
        for path in sorted(names):
            inode = names[path]
            if path and _parent(path) not in after._names:
                continue  # its directory was lost
            if inode is not None:
                inode = fresh.setdefault(id(inode), _Inode(inode.after_crash(mode, chance)))
            after._names[path] = inode
        after._safe = dict(after._names)
        return after

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Damages a stored file behind everybody's back."""
        inode = self._file(path)
        inode.now[position] ^= 1 << bit
        inode.sync()

    def put(self, path: str, data: bytes) -> None:
        """Places a file from outside, safe at once."""
        self._names[path] = self._safe[path] = _Inode(data)

    # --- the Disk port -------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, spare: bool = False) -> SimFile:
        if self.out_of_files and not spare:
            raise OSError(errno.EMFILE, "simulated lack of file descriptors")
        if path.endswith("/"):
            raise IsADirectoryError(path)
        if create and path not in self._names:
            if not self.is_dir(_parent(path)):
                raise FileNotFoundError(_parent(path))
            self.take_space(0)
            self._change([(path, _Inode(), True)])
        return SimFile(self, self._file(path))

    def read_file(self, path: str) -> bytes | None:
        inode = self._names.get(path)
        return None if inode is None else bytes(inode.now)

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = self.open(path + ".tmp", create=True, spare=True)
        temporary.truncate(0)
        try:
            temporary.append([data])
        except OSError:
            temporary.append_part(data[: len(data) // 2])
            self.remove(path + ".tmp")
            raise
        if durable:
            temporary.sync()
        self.rename(path + ".tmp", path)
        if durable:
            self.sync_dir(_parent(path))

    def write_at(self, path: str, position: int, data: bytes) -> None:
        self.open(path, create=True, spare=True)
        try:
            self.take_space(len(data))
        except OSError:
            self._file(path).write(position, data[: len(data) // 2])
            raise
        self._file(path).write(position, data)
        self.step()

    def names(self, path: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self._names if name and _parent(name) == path)

    def is_dir(self, path: str) -> bool:
        return path in self._names and self._names[path] is None

    def size(self, path: str) -> int:
        return len(self._file(path).now)

    def make_dirs(self, path: str) -> None:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            if (part := "/".join(parts[:depth])) not in self._names:
                self.take_space(0)
                self._change([(part, None, True)])

    def rename(self, source: str, target: str) -> None:
        moved = [name for name in self._names if name == source or name.startswith(source + "/")]
        if not moved:
            raise FileNotFoundError(source)
        changes: list[_Change] = [(name, None, False) for name in moved]
        changes += [(target + name[len(source) :], self._names[name], True) for name in moved]
        self._change(changes)

    def remove(self, path: str) -> None:
        if self._names.get(path) is not None:
            self._change([(path, None, False)])

    def remove_tree(self, path: str) -> None:
        for name in sorted(self._names, reverse=True):
            if name == path or name.startswith(path + "/"):
                self._change([(name, None, False)])

    def sync_dir(self, path: str) -> None:
        self.step()
        if self.fails_sync:
            raise OSError(errno.EIO, "simulated sync failure")
        if not self.is_dir(path):
            raise FileNotFoundError(path)
        ours = [changes for changes in self._pending if any(_parent(name) == path for name, _, _ in changes)]
        for changes in ours:
            _apply(self._safe, changes)
        self._pending = [changes for changes in self._pending if changes not in ours]

    def usage(self) -> Usage:
        used = self._used()
        if 0 <= self.full_at <= self.space_calls:
            return Usage(used, 0, 100.0)
        return Usage(self.capacity_bytes, max(0, self.capacity_bytes - used), 100.0 * used / self.capacity_bytes)

    def _used(self) -> int:
        return sum(len(inode.now) for inode in self._names.values() if inode is not None)

    def _file(self, path: str) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(path)
        return inode

    def _change(self, changes: list[_Change]) -> None:
        _apply(self._names, changes)
        self._pending.append(changes)
        self.step()


def _apply(names: _Names, changes: list[_Change]) -> None:
    for path, inode, present in changes:
        if present:
            names[path] = inode
        else:
            names.pop(path, None)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
