"""Which files of a data directory a backup needs, and a hold on them as they are at one moment: hard links.

What is linked outlives retention, compaction and the deletion of its topic. Only logs grow after the link, and a backup
takes as much of each as there was. What is overwritten in place or derived from other files is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

UNFINISHED: Final = "restore-unfinished"  # in a data directory that a restore did not fill yet
SNAPSHOTS: Final = "snapshots"
_METADATA: Final = "metadata"
_WHOLE: Final = (_METADATA, "redrives", "topics", "held")
_NOTES: Final = ("identity", "producer", "disk-note")
_JOURNAL: Final = "journal-"
PROCESS_DIRECTORY: Final = re.compile(r"process-\d+")
_SEGMENT: Final = re.compile(r"(\d{20})\.(log|seal|damage|index|timeindex)")
_SEALED: Final = ("log", "index", "timeindex")
_LITTER: Final = (".tmp", ".compact", ".cut")
_OF_A_STOPPED_NODE: Final = ("checkpoint",)
_SEAL_BYTES_MAX: Final = 4096


class SnapshotFile(msgspec.Struct, frozen=True):
    """`version` tells the contents of a file that never changes under its name and version; empty of all others."""

    path: str
    size_bytes: int
    version: str = ""


def files_of(data: Path, is_stopped: bool) -> list[SnapshotFile]:
    """Everything that a node needs to go on from here. Of a stopped node also what speaks of its last sync."""
    return sorted(_files(data, "", is_stopped), key=lambda file: file.path)


def process_directories(data: Path) -> list[Path]:
    """Of the further processes of a machine."""
    return sorted(path for path in data.iterdir() if PROCESS_DIRECTORY.fullmatch(path.name))


def link_files(data: Path, target: Path, is_alone: bool) -> list[SnapshotFile]:
    """The files of a running node, linked as `target/0`, `target/1` and so on, in the order of the answer. The metadata
    of a node of several is not its own.

    It runs on the event loop, so that nothing else happens meanwhile: what is linked is what a `kill -9` would leave.
    """
    found = files_of(data, is_stopped=False)
    if not is_alone:
        found = [file for file in found if not file.path.startswith(f"{_METADATA}/")]
    for number, file in enumerate(found):
        os.link(f"{data}/{file.path}", f"{target}/{number}")
    return found


def _files(data: Path, prefix: str, is_stopped: bool) -> Iterator[SnapshotFile]:
    with os.scandir(data / prefix) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_dir in names:
        path = f"{prefix}{name}"
        if is_dir and name == "logs":
            yield from _logs(data, path, is_stopped)
        elif is_dir and name in _WHOLE:
            yield from _tree(data, path)
        elif is_dir and PROCESS_DIRECTORY.fullmatch(name) and is_stopped:
            yield from _files(data, f"{path}/", is_stopped)
        elif not is_dir and (name.startswith(_NOTES) or (is_stopped and name.startswith(_JOURNAL))):
            yield SnapshotFile(path, (data / path).stat().st_size)


def _tree(data: Path, path: str) -> Iterator[SnapshotFile]:
    with os.scandir(data / path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _tree(data, f"{path}/{entry.name}")
            elif not entry.name.endswith(_LITTER):
                yield SnapshotFile(f"{path}/{entry.name}", entry.stat().st_size)


def _logs(data: Path, path: str, is_stopped: bool) -> Iterator[SnapshotFile]:
    """Each topic's partitions."""
    for topic in _directories(data, path):
        for partition in _directories(data, topic):
            yield from _partition(data, partition, is_stopped)


def _directories(data: Path, path: str) -> list[str]:
    with os.scandir(data / path) as entries:
        return [f"{path}/{entry.name}" for entry in entries if entry.is_dir(follow_symlinks=False)]


def _partition(data: Path, path: str, is_stopped: bool) -> Iterator[SnapshotFile]:
    with os.scandir(data / path) as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries if entry.is_file(follow_symlinks=False)}
    seals = _seals(data / path, sizes)
    for name, size in sizes.items():
        segment = _SEGMENT.fullmatch(name)
        if segment is None:
            if is_stopped or name not in _OF_A_STOPPED_NODE:
                yield from () if name.endswith(_LITTER) else (SnapshotFile(f"{path}/{name}", size),)
        elif (version := seals.get(segment[1])) is not None:
            yield SnapshotFile(f"{path}/{name}", size, version if segment[2] in _SEALED else "")
        elif is_stopped or segment[2] in ("log", "damage"):
            yield SnapshotFile(f"{path}/{name}", size)


def _seals(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """The seal of every segment that has one: length and checksum of what never changes any more."""
    found: dict[str, str] = {}
    for name in names:
        if name.endswith(".seal"):
            with (directory / name).open("rb") as file:
                found[name[:20]] = file.read(_SEAL_BYTES_MAX).decode("ascii", "replace").strip()
    return found
