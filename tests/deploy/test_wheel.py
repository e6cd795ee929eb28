"""A wheel of this tree, installed into a fresh environment with extras, starts a node and answers."""

from __future__ import annotations

from pathlib import Path

from tests.deploy.fresh import build_wheel, install, run, serving
from tests.long import only_long

pytestmark = only_long


def test_a_wheel_is_installed_with_extras_and_serves(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "wheels")
    programs = install(tmp_path, [f"{wheel}[schemas,security]"])
    assert run(programs / "goqueue", "version", cwd=tmp_path).startswith("goqueue")
    with serving(programs, tmp_path) as told:
        url = next(word for word in told.split() if word.startswith("http://"))
        run(programs / "goqueue", "--server", url, "topic", "create", "t", cwd=tmp_path)
        run(programs / "goqueue", "--server", url, "produce", "t", "hello", cwd=tmp_path)
        read = run(programs / "goqueue", "--server", url, "consume", "t", "--from", "earliest", cwd=tmp_path)
        assert read.strip() == "hello"
