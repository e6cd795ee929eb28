"""Where an etcd is looked for, and what is said if there is none that can be used."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from goqueue.base.etcd_versions import has_known_faults
from goqueue.cli.etcd_program import VERSION, EtcdMissing, find_etcd, version_of


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "faulty"),
    [
        ("3.5.28", False),
        ("3.5.27", True),
        ("3.6.9", False),
        ("3.6.8", True),
        ("3.7.0", False),
        ("4.0.1", False),
        ("3.4.99", True),
        ("2.3.8", True),
        ("", True),
        ("new", True),
    ],
)
def test_versions_with_known_faults(version: str, faulty: bool) -> None:
    assert has_known_faults(version) is faulty


def test_the_one_that_is_named_comes_first(tmp_path: Path) -> None:
    named = program(tmp_path / "mine", "etcd Version: 3.6.9")
    program(tmp_path / "bin/etcd", "etcd Version: 3.6.12")
    assert find_etcd({"ETCD": str(named), "PATH": str(tmp_path / "bin")}) == named


@pytest.mark.parametrize(
    ("says", "told"),
    [("etcd Version: 3.5.16", "etcd 3.5.16 has known faults; 3.5.28, 3.6.9 or a newer"), ("hello", "not an etcd")],
)
def test_the_one_that_is_named_has_to_be_one_that_can_be_trusted(tmp_path: Path, says: str, told: str) -> None:
    named = program(tmp_path / "mine", says)
    with pytest.raises(EtcdMissing, match=told) as caught:
        find_etcd({"ETCD": str(named)})
    assert str(named) in caught.value.message


def test_one_that_is_not_there_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(EtcdMissing, match="not an etcd that can be run"):
        find_etcd({"ETCD": str(tmp_path / "nothing")})


def test_the_path_comes_before_the_cache(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin/etcd", "etcd Version: 3.6.9\nGit SHA: 1")
    program(tmp_path / f"cache/goqueue/etcd-{VERSION}", f"etcd Version: {VERSION}")
    environ = {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert find_etcd(environ) == on_path
    program(on_path, "etcd Version: 3.4.30")
    assert find_etcd(environ).name == f"etcd-{VERSION}"


def test_without_any_it_is_said_what_to_install(tmp_path: Path) -> None:
    old = program(tmp_path / "bin/etcd", "etcd Version: 3.4.30")
    environ = {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.raises(EtcdMissing, match=r"Install one and name it with ETCD=.*, or install Go") as caught:
        find_etcd(environ)
    assert str(old) in caught.value.message


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    go = program(tmp_path / "bin/go", "")
    go.write_text("#!/bin/sh\necho 'no such module' >&2\nexit 1\n")
    told: list[str] = []
    environ = {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with pytest.raises(EtcdMissing, match="could not be built: no such module"):
        find_etcd(environ, told.append)
    assert len(told) == 1 and f"building etcd {VERSION}" in told[0]
    assert list((tmp_path / "cache/goqueue").iterdir()) == []


def test_a_build_is_kept_for_the_next_time(tmp_path: Path) -> None:
    go = program(tmp_path / "bin/go", "")
    go.write_text(f"#!{shutil.which('sh')}\nif [ $1 = build ]; then echo made > program; fi\n")
    environ = {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert find_etcd(environ).read_text() == "made\n"
    go.unlink()
    assert find_etcd(environ).read_text() == "made\n"
    assert version_of(find_etcd(environ)) == ""
