"""A node whose disk is slow or fails when a file says so, or that has one of the planted bugs.

It is a program of its own, so that nothing in a node can be set to this by accident: `run(FAULTS)` and
`run(FAULTS, BUG)` are started in place of the command line. The file is mapped: a look at it costs next to nothing.
"""

from __future__ import annotations

import errno
import mmap
import random
import select
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from goqueue.cli import main
from goqueue.log.real_disk import RealDisk, RealFile

_FORM: Final = struct.Struct("<dd")
_WRITES: Final = ((RealFile, "append"), (RealFile, "write"), (RealFile, "sync"), (RealDisk, "write_file"))


class DiskFaults(NamedTuple):
    """Every write and sync takes so much longer, and fails with such a chance."""

    delay_s: float = 0.0
    error_chance: float = 0.0


def set_faults(path: Path, faults: DiskFaults) -> None:
    """In place: a node has the file mapped."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(_FORM.pack(*faults))


def run(faults: str, bug: str = "") -> None:
    _install(Path(faults))
    if not bug:
        main()
        return
    from tests.cluster.planted import planted  # imports the simulation, which a node does not need

    with planted(bug):
        main()


def _install(path: Path) -> None:
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), _FORM.size, prot=mmap.PROT_READ)
    for kind, name in _WRITES:
        setattr(kind, name, _faulty(getattr(kind, name), mapped))


def _faulty(call: Callable[..., Any], mapped: mmap.mmap) -> Callable[..., Any]:
    def verb(*args: Any, **named: Any) -> Any:
        delay_s, error_chance = _FORM.unpack_from(mapped)
        if delay_s:
            select.select([], [], [], delay_s)  # `time.sleep` fails under libfaketime
        if error_chance and random.random() < error_chance:
            raise OSError(errno.EIO, "the disk fails, on purpose")
        return call(*args, **named)

    return verb
