"""A wheel of this tree in environments of their own, as somebody new to it would install it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
ENVIRON: Final = {name: value for name, value in os.environ.items() if not name.startswith(("GOQUEUE_", "PYTHON"))}
_SERVE: Final = ("serve", "--data", "data", "--rest", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--sqs", "127.0.0.1:0")


def run(*command: str | Path, cwd: Path = ROOT, environ: dict[str, str] = ENVIRON) -> str:
    done = subprocess.run(list(command), capture_output=True, text=True, timeout=500, cwd=cwd, env=environ)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def build_wheel(folder: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("goqueue-*.whl")
    return wheel


def install(folder: Path, packages: Sequence[str]) -> Path:
    """The programs of a new environment with these packages."""
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/pip", "install", "--quiet", *packages)
    return folder / "venv/bin"


@contextmanager
def serving(programs: Path, folder: Path) -> Iterator[str]:
    """What a node with its data in the folder printed until it was ready."""
    log = folder / "node.log"
    with log.open("w") as out:
        node = subprocess.Popen([programs / "goqueue", *_SERVE], cwd=folder, stdout=out, stderr=out, env=ENVIRON)
    try:
        wait_until(lambda: "Ready" in log.read_text(), log.read_text)
        yield log.read_text()
    finally:
        node.terminate()
        node.wait(60)
