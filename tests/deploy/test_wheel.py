"""A wheel of this tree, installed into a fresh environment with extras, starts a node and answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import LONG
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not LONG, reason="GOQUEUE_LONG_TESTS=1 runs it: it installs packages")


ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith(("GOQUEUE_", "PYTHON"))}


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(list(command), capture_output=True, text=True, timeout=280, cwd=cwd, env=ENVIRON)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_wheel_is_installed_with_extras_and_serves(tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "wheels", ROOT)
    (wheel,) = (tmp_path / "wheels").glob("goqueue-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv/bin"
    run(programs / "pip", "install", "--quiet", f"{wheel}[schemas,security]")
    assert run(programs / "goqueue", "version", cwd=tmp_path).startswith("goqueue")
    command: list[str | Path] = [
        programs / "goqueue",
        "serve",
        "--data",
        "data",
        "--rest",
        "127.0.0.1:0",
        "--kafka",
        "127.0.0.1:0",
    ]
    with (tmp_path / "out").open("w") as out:
        node = subprocess.Popen([*command, "--sqs", "127.0.0.1:0"], cwd=tmp_path, stdout=out, stderr=out, env=ENVIRON)
    try:
        wait_until(lambda: "Ready" in (tmp_path / "out").read_text(), lambda: (tmp_path / "out").read_text())
        url = next(word for word in (tmp_path / "out").read_text().split() if word.startswith("http://"))
        run(programs / "goqueue", "--server", url, "topic", "create", "t", cwd=tmp_path)
        run(programs / "goqueue", "--server", url, "produce", "t", "hello", cwd=tmp_path)
        read = run(programs / "goqueue", "--server", url, "consume", "t", "--from", "earliest", cwd=tmp_path)
        assert read.strip() == "hello"
    finally:
        node.terminate()
        node.wait(60)
