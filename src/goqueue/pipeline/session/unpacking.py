"""The first module a worker loads from the pack that `shipping` builds; it travels there under another name.

An archive on the import path can give Python source, but no compiled module. So each package in it is only an entry,
which unpacks what lies in the archive into a directory beside it, once for all workers of an executor, and hands over
to the real one. That directory belongs to the job: Spark removes it with the job's other files.

Nothing but the standard library is imported here: there is nothing else yet.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

INSIDE = "pack/"  # what is to be unpacked, within the archive


def become(name: str) -> None:
    """Puts the real package of that name in the place of the one being imported."""
    home = str(unpacked(_archive()))
    if home not in sys.path:
        # Before the archive itself, where the name would be found a second time.
        sys.path.insert(0, home)
    importlib.invalidate_caches()
    del sys.modules[name]
    importlib.import_module(name)


def _archive() -> Path:
    """`…/goqueue-1234.zip` of `…/goqueue-1234.zip/this_module.py`."""
    return Path(__file__).absolute().parent


def unpacked(archive: Path) -> Path:
    """The directory with the archive's content, made by the first worker that needs it."""
    home = archive.with_suffix(".unpacked")
    if not home.is_dir():
        _unpack(archive, home)
    return home


def _unpack(archive: Path, home: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(draft, [name for name in packed.namelist() if name.startswith(INSIDE)])
        _publish(draft / INSIDE, home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _publish(content: Path, home: Path) -> None:
    """Whole or not at all: other workers start at the same time."""
    try:
        content.rename(home)
    except OSError:
        if not home.is_dir():
            raise
