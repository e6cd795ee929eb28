"""A SPARK_HOME without `pyspark.zip`.

Spark puts that archive in front of its workers' import path. They then load PySpark from it, unpacking and compiling
every module in every process. Without it they take the installed package with its compiled modules, and a small query
takes half the time. The overlay also has a log configuration that keeps quiet about what nobody can help.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_LINKED: Final = ("bin", "jars", "sbin")
_KEPT_S: Final = 24 * 3600
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def cache_dir() -> Path:
    """Where this user's programs keep what can be made anew."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "goqueue"


def overlay(installed: Path | None = None, cache: Path | None = None) -> Path:
    """The overlay of the installed PySpark, made by the first who asks. `OSError` where it cannot be made."""
    source = installed or installed_spark()
    home = (cache or cache_dir()) / f"spark-home-{_fingerprint(source)}"
    if not home.is_dir():
        _make(source, home)
    _sweep(home / "work", time.time())
    return home


def installed_spark() -> Path:
    """The directory of the PySpark that is imported here."""
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).resolve().parent


def _fingerprint(source: Path) -> str:
    """Another place and another version are another overlay: links into an old one lead nowhere."""
    told = (str(source).encode(), (source / "version.py").read_bytes(), _LOGGING.read_bytes())
    return hashlib.sha256(b"\0".join(told)).hexdigest()[:16]


def _make(source: Path, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        _link(source, draft)
        draft.chmod(0o755)
        _publish(draft, home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _link(source: Path, draft: Path) -> None:
    for name in _LINKED:
        (draft / name).symlink_to(source / name)
    lib = draft / "python" / "lib"
    lib.mkdir(parents=True)
    for archive in (source / "python" / "lib").glob("py4j-*.zip"):
        (lib / archive.name).symlink_to(archive)
    (draft / "conf").mkdir()
    shutil.copy(_LOGGING, draft / "conf")


def _sweep(work: Path, now: float) -> None:
    """Takes away what executors of a `local-cluster` left: Spark never does."""
    for left in work.glob("app-*"):
        if left.stat().st_mtime + _KEPT_S < now:
            shutil.rmtree(left, ignore_errors=True)


def _publish(draft: Path, home: Path) -> None:
    """Whole or not at all: another process may be making the same one."""
    try:
        draft.rename(home)
    except OSError:
        if not home.is_dir():
            raise
