"""Backups of several nodes at one moment: all stand still together while each holds its files.

The node that is asked begins. Every other one holds its files as soon as it is asked, and then does nothing for a given
time. The node that asks holds its own files meanwhile, and reads the metadata store before and after. It knows by its
own clock whether that was one moment: nobody went on before `asked + still`, and whoever answered at `t` had held its
files before `t - still`. So no node did anything after it held its files that another one saw before. To the nodes that
start from it, it looks as if all had been killed at that moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

import msgspec

from goqueue.api.backups import BackupFileOut, BackupFilesOut, BackupOut, BackupPart
from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import BackupRefused, GoQueueError, InvalidField, Overloaded, UnknownBackup
from goqueue.base.limits import BACKUP_FILES_LISTED_MAX, BACKUP_READ_BYTES_MAX, BACKUP_WAIT_S, BACKUPS_MAX
from goqueue.base.metadata import Snapshot
from goqueue.drive.image_follower import ImageFollower
from goqueue.service.backups import Backups, HeldHere, digest_of
from goqueue.service.router import Router, together

STORE: Final = "store"  # the file of a backup that has the metadata: JSON, a value for each key
_STILL_S: Final = (0.3, 0.6, *[0.9] * 8)  # nodes that are silent for two seconds are taken for dead
_PAUSE_S: Final = 1.0  # in which work goes on
_TOUCH_S: Final = 60.0


class _NotTogether(Exception):
    """Some node held its files too late, or the metadata changed meanwhile."""


class OneMoment(msgspec.Struct, frozen=True):
    """By the clock of the node that asks: others were asked to stand still, this one held its files, it had read the
    metadata again."""

    asked: float
    still_s: float
    held: float
    read: float

    def has(self, answered: float) -> bool:
        """Whether a node that stood still before it answered held its files in the same moment: before this node did,
        and it went on after all was read."""
        return self.held <= self.read <= self.asked + self.still_s and answered - self.still_s <= self.held


class _Cluster(msgspec.Struct):
    shown: BackupOut
    nodes: list[int]
    store: bytes
    files: list[tuple[int, int, BackupFileOut]]  # node, number there; the store has the number -1
    touched_at: float


class _Answered(msgspec.Struct):
    held: HeldHere
    at: float


class ClusterBackups:
    """The part of the node that was asked. The others know of it by the end of a backup's id."""

    def __init__(
        self, router: Router, here: Backups, metadata: ImageFollower, entropy: Entropy, is_machine: bool
    ) -> None:
        """`is_machine`: the nodes are processes of one machine, and have one data directory."""
        self._router = router
        self._here = here
        self._metadata = metadata
        self._entropy = entropy
        self._is_machine = is_machine
        self._backups: dict[str, _Cluster] = {}

    async def begin(self) -> BackupOut:
        # Those that nobody read were ended here.
        self._backups = {name: one for name, one in self._backups.items() if self._here.holds(name)}
        if len(self._backups) >= BACKUPS_MAX:
            raise BackupRefused(f"{BACKUPS_MAX} backups are under way; end one, or wait until it ends.")
        nodes = self._nodes()
        deadline = time.monotonic() + BACKUP_WAIT_S
        tries = list(_STILL_S)
        while tries:
            name = f"{new_uuid(self._entropy)}-{self._router.shards.node}"
            try:
                return await self._begin(name, nodes, tries[0])
            except Overloaded:  # a log is being compacted somewhere
                await self._end(name, nodes)
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_PAUSE_S)
            except _NotTogether:
                await self._end(name, nodes)
                del tries[0]
                await asyncio.sleep(_PAUSE_S)
            except BaseException:
                await self._end(name, nodes)
                raise
        raise Overloaded("The nodes could not be held at one moment: they are busy, or topics are changed; try again.")

    def _nodes(self) -> list[int]:
        image = self._metadata.image
        living = image.nodes()
        if missing := [str(node) for node in sorted(image.members()) if node not in living]:
            raise BackupRefused(f"A backup needs every node, and not there: {', '.join(missing)}. Start or remove it.")
        return sorted(living)

    async def _begin(self, name: str, nodes: list[int], still_s: float) -> BackupOut:
        me = self._router.shards.node
        async with self._here.quiet():
            asked = time.monotonic()
            calls = [asyncio.ensure_future(self._hold(node, name, still_s)) for node in nodes if node != me]
            try:
                await asyncio.sleep(still_s / 4)
                before = await self._metadata.store.read()
                own = self._here.hold_now(name)
                held_at = time.monotonic()
                after = await self._metadata.store.read()
                read_at = time.monotonic()
                answers = await asyncio.gather(*calls)
            finally:
                for call in calls:
                    call.cancel()
        moment = OneMoment(asked, still_s, held_at, read_at)
        if not all(moment.has(one.at) for one in answers) or before.entries != after.entries:
            raise _NotTogether
        return await self._keep(name, nodes, _stored(after), [own, *(one.held for one in answers)])

    async def _hold(self, node: int, name: str, still_s: float) -> _Answered:
        held: HeldHere = await self._router.ask(node, Backups, "hold", (name, still_s))
        return _Answered(held, time.monotonic())

    async def _keep(self, name: str, nodes: list[int], store: bytes, held: list[HeldHere]) -> BackupOut:
        me = self._router.shards.node
        files = [(me, -1, BackupFileOut(STORE, len(store), ""))]
        others = [node for node in nodes if node != me]
        for node, one in zip([me, *others], held, strict=True):
            prefix = one.place if self._is_machine else f"node-{node}/"
            files += [
                (node, number, BackupFileOut(f"{prefix}{file.path}", file.size_bytes, file.version))
                for number, file in enumerate(await self._listed(node, name))
            ]
        own = held[0].shown
        pause_ms = max(one.shown.pause_ms for one in held)
        size = sum(file.size_bytes for _, _, file in files)
        shown = BackupOut(
            name, own.taken_ms, own.version, len(files), size, pause_ms, [] if self._is_machine else nodes
        )
        self._backups[name] = _Cluster(shown, nodes, store, files, time.monotonic())
        return shown

    async def _listed(self, node: int, name: str) -> list[BackupFileOut]:
        found: list[BackupFileOut] = []
        after: int | None = 0
        while after is not None:
            page: BackupFilesOut = await self._router.ask(node, Backups, "files", (name, after))
            found += page.files
            after = page.next
        return found

    async def files(self, name: str, after: int) -> BackupFilesOut:
        files = self._find(name).files
        page = files[after : after + BACKUP_FILES_LISTED_MAX]
        end = after + len(page)
        return BackupFilesOut([file for _, _, file in page], end if end < len(files) else None)

    async def read(self, name: str, parts: Sequence[BackupPart], digests: bool = False) -> bytes:
        backup = self._find(name)
        if any(part.file >= len(backup.files) for part in parts):
            raise InvalidField("There is no such file.", field="parts")
        if not digests and sum(part.size for part in parts) > BACKUP_READ_BYTES_MAX:
            raise InvalidField(f"One request reads at most {BACKUP_READ_BYTES_MAX} bytes.", field="parts")
        await self._touch(backup)
        found: list[bytes] = []
        for (node, is_store), some in groupby(parts, lambda part: _where(backup, part)):
            if is_store:
                pieces = [backup.store[part.position : part.position + part.size] for part in some]
                found += [digest_of(piece) for piece in pieces] if digests else pieces
                continue
            theirs = [BackupPart(backup.files[part.file][1], part.position, part.size) for part in some]
            found.append(await self._router.ask(node, Backups, "read", (name, theirs, digests)))
        return b"".join(found)

    async def _touch(self, backup: _Cluster) -> None:
        """While one node's files are read, those of the others stay."""
        if time.monotonic() - backup.touched_at > _TOUCH_S:
            backup.touched_at = time.monotonic()
            await together(self._router.ask(node, Backups, "files", (backup.shown.id, 0)) for node in backup.nodes)

    async def end(self, name: str) -> None:
        await self._end(name, self._find(name).nodes)

    async def _end(self, name: str, nodes: list[int]) -> None:
        self._backups.pop(name, None)
        for node in nodes:
            with suppress(GoQueueError):  # it ends by itself if nobody reads it
                await self._router.ask(node, Backups, "end", (name,))

    def _find(self, name: str) -> _Cluster:
        found = self._backups.get(name)
        if found is None or not self._here.holds(name):
            self._backups.pop(name, None)
            raise UnknownBackup(f"No backup {name[:64]} is under way; begin one.")
        return found


class RoutedBackups:
    """Stands for backups at every node: those that another one began are asked for there."""

    def __init__(self, router: Router, own: ClusterBackups) -> None:
        self._router = router
        self._own = own

    async def begin(self) -> BackupOut:
        return await self._own.begin()

    async def files(self, name: str, after: int) -> BackupFilesOut:
        found: BackupFilesOut = await self._router.ask(self._node_of(name), ClusterBackups, "files", (name, after))
        return found

    async def read(self, name: str, parts: Sequence[BackupPart], digests: bool = False) -> bytes:
        node = self._node_of(name)
        found: bytes = await self._router.ask(node, ClusterBackups, "read", (name, list(parts), digests))
        return found

    async def end(self, name: str) -> None:
        await self._router.ask(self._node_of(name), ClusterBackups, "end", (name,))

    def _node_of(self, name: str) -> int:
        number = name.rpartition("-")[2]
        if not number.isdecimal() or int(number) not in {self._router.shards.node, *self._router.shards.nodes()}:
            raise UnknownBackup(f"No backup {name[:64]} is under way; begin one.")
        return int(number)


def _where(backup: _Cluster, part: BackupPart) -> tuple[int, bool]:
    node, number, _ = backup.files[part.file]
    return node, number < 0


def _stored(found: Snapshot) -> bytes:
    """Without what ends with a session: the nodes that start from it begin new ones."""
    kept = {key: entry.value for key, entry in sorted(found.entries.items()) if entry.session is None}
    return msgspec.json.encode(kept)
