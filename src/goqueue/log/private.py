"""Files that only the node's own user may read: messages are nobody else's business on a shared machine."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

FILE_MODE: Final = 0o600
DIR_MODE: Final = 0o700
_OTHERS: Final = 0o077


def make_private_dirs(path: Path) -> None:
    """Every directory that is missing on the way, whatever the process' umask is."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(DIR_MODE, exist_ok=True)


def create_private(path: Path) -> None:
    """An empty file, for a library that would create it for all to read. One that is there stays as it is."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def tighten(root: Path, names: Iterable[str]) -> None:
    """Takes the rights of others away from what an earlier version left open under these names."""
    refused = sum(not _tighten_one(path) for name in names for path in _tree(root / name))
    if refused:
        logger.warning(
            "some files may be read by others: they belong to another user", extra={"path": str(root), "files": refused}
        )


def tighten_dir(path: Path) -> None:
    if not _tighten_one(str(path)):
        logger.warning(
            "the data directory may be read by others: it belongs to another user", extra={"path": str(path)}
        )


def _tree(path: Path) -> Iterator[str]:
    """As text: a node has tens of thousands of files, and every start looks at all of them."""
    if path.is_symlink() or not path.exists():
        return
    yield str(path)
    if path.is_dir():
        for directory, folders, files in os.walk(path):
            yield from (f"{directory}/{name}" for name in (*folders, *files))


def _tighten_one(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
        if mode & _OTHERS and not stat.S_ISLNK(mode):
            os.chmod(path, stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True
