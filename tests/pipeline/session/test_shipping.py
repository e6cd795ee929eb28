"""The pack that executors get: what is in it, and that it works where nothing of it is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from goqueue.pipeline.session.shipping import carried_libraries, py_files
from goqueue.pipeline.session.unpacking import unpacked
from tests.pipeline.bare import bare_python


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return py_files(tmp_path_factory.mktemp("pack"))


def _bare(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Runs it in a Python that sees no installed package."""
    python = getattr(sys, "_base_executable", sys.executable)
    environ = {"PYTHONPATH": ":".join(map(str, path))}
    return subprocess.run([python, "-S", "-c", code], env=environ, capture_output=True, text=True, timeout=60)


def test_the_libraries_are_those_that_the_client_and_the_codec_need() -> None:
    names = {library.metadata["Name"].lower() for library in carried_libraries()}
    assert names >= {"aiokafka", "cramjam", "crc32c", "httpx", "httpcore", "h11", "anyio", "msgspec"}
    assert not names & {"pyspark", "pyarrow", "pandas", "numpy"}, "executors have these"


def test_equal_content_is_one_pack(pack: Path) -> None:
    made = pack.stat().st_ino
    assert py_files(pack.parent) == pack
    assert pack.stat().st_ino == made
    assert list(pack.parent.iterdir()) == [pack]


def test_it_gives_compiled_modules_to_a_python_that_has_none(pack: Path) -> None:
    code = (
        "import goqueue.client, goqueue.wire.api, goqueue.format.records, msgspec, cramjam, crc32c\n"
        "from goqueue.client import Client\n"
        "print(goqueue.__file__, msgspec._core.__file__, Client.__module__)"
    )
    assert "No module named" in _bare(code).stderr
    ran = _bare(code, pack)
    assert ran.returncode == 0, ran.stderr
    home = str(pack.with_suffix(".unpacked"))
    where, core, module = ran.stdout.split()
    assert where.startswith(home) and core.startswith(home) and module == "goqueue.client.client"


@pytest.mark.parametrize("name", ["goqueue.base.limits", "msgspec", "typing_extensions", "crc32c", "httpx"])
def test_any_part_of_it_may_be_asked_for_first(pack: Path, name: str) -> None:
    ran = _bare(f"import {name} as one; print(one.__name__, one.__file__)", pack)
    found, place = ran.stdout.split()
    assert (found, ".unpacked/" in place) == (name, True), ran.stderr


def test_everything_that_executors_run_loads_where_only_sparks_own_needs_are(tmp_path: Path, pack: Path) -> None:
    python = bare_python(tmp_path) / "python3"
    code = (
        "import pyspark_goqueue, goqueue.pipeline.sink, goqueue.pipeline.link.reading, goqueue.pipeline.source.readers"
    )
    environ = {"PYTHONPATH": str(pack), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([python, "-c", code], env=environ, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_many_workers_that_start_at_once_unpack_it_once(tmp_path: Path, pack: Path) -> None:
    mine = tmp_path / pack.name
    mine.write_bytes(pack.read_bytes())
    started = [_start(mine) for _ in range(6)]
    told = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * 6, told
    assert sorted(path.name for path in tmp_path.iterdir()) == [mine.with_suffix(".unpacked").name, mine.name]


def _start(pack: Path) -> subprocess.Popen[str]:
    python = getattr(sys, "_base_executable", sys.executable)
    command: Sequence[str] = [python, "-S", "-c", "import goqueue.client"]
    return subprocess.Popen(command, env={"PYTHONPATH": str(pack)}, stderr=subprocess.PIPE, text=True)


def test_a_broken_archive_leaves_nothing_behind(tmp_path: Path) -> None:
    broken = tmp_path / "goqueue-x.zip"
    broken.write_bytes(b"PK no archive")
    with pytest.raises(zipfile.BadZipFile):
        unpacked(broken)
    assert list(tmp_path.iterdir()) == [broken]
