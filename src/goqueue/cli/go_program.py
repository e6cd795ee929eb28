"""Programs that Go builds from a module, once, into the user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

BUILD_S_MAX: Final = 900


class BuildFailed(Exception):
    """What Go said."""


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "goqueue"


def build_program(
    go: str, target: Path, files: Mapping[str, str], steps: Sequence[Sequence[str]], within_s: float = BUILD_S_MAX
) -> None:
    """Runs Go's `steps` on the files; the last one writes `program`, which becomes the target."""
    work = target.parent / f"building-{target.name}-{os.getpid()}"
    work.mkdir(parents=True)
    try:
        for name, text in files.items():
            (work / name).write_text(text)
        for step in steps:
            _run(go, work, step, within_s)
        (work / "program").replace(target)
    finally:
        shutil.rmtree(work)


def _run(go: str, work: Path, arguments: Sequence[str], within_s: float) -> None:
    try:
        done = subprocess.run([go, *arguments], cwd=work, capture_output=True, text=True, timeout=within_s)
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"go {arguments[0]} took over {within_s:.0f} s.") from None
    if done.returncode:
        raise BuildFailed(done.stderr[-500:].strip())
