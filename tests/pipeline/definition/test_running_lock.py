"""One process runs a pipeline on a lake at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.pipeline.definition.lake_notes import NoteUnwritable
from goqueue.pipeline.definition.running_lock import AlreadyRunning, RunningLock
from goqueue.pipeline.definition.sinks import SinkPlace


def place(lake: str, name: str = "shop") -> SinkPlace:
    return SinkPlace(name, lake, "/nowhere", {}, None)


def test_the_second_one_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first = RunningLock(place(str(tmp_path)))
    with pytest.raises(AlreadyRunning, match=rf"shop runs already on this lake \(process {os.getpid()}\)"):
        RunningLock(place(str(tmp_path)))
    RunningLock(place(str(tmp_path), "other")).release()
    RunningLock(place(f"{tmp_path}/lake")).release()
    first.release()
    first.release()
    RunningLock(place(str(tmp_path))).release()


def test_who_was_killed_holds_nothing(tmp_path: Path) -> None:
    held = (
        "import sys; from tests.pipeline.definition.test_running_lock import *; "
        "lock = RunningLock(place(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", held, str(tmp_path)]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(AlreadyRunning, match=rf"process {other.pid}\)"):
            RunningLock(place(str(tmp_path)))
        other.kill()
    RunningLock(place(str(tmp_path))).release()


def test_object_storage_has_no_locks(tmp_path: Path) -> None:
    RunningLock(place("s3://bucket/lake"))
    RunningLock(place("s3://bucket/lake"))


def test_a_lake_that_takes_none_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("no folder")
    with pytest.raises(NoteUnwritable, match="Choose a lake that this user may write to") as raised:
        RunningLock(place(str(tmp_path / "lake")))
    assert "\n" not in str(raised.value)
