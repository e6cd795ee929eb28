"""The overlay: what is in it, and that it is made whole and once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from goqueue.pipeline.session.spark_home import cache_dir, installed_spark, overlay


def _spark(root: Path, version: str = "4.3.0") -> Path:
    for name in ("bin", "jars", "sbin", "python/lib"):
        (root / name).mkdir(parents=True)
    (root / "version.py").write_text(version)
    for name in ("py4j-0.10.9.9-src.zip", "pyspark.zip"):
        (root / "python" / "lib" / name).write_text(name)
    return root


def test_it_has_everything_but_the_archive_of_pyspark(tmp_path: Path) -> None:
    source = _spark(tmp_path / "spark")
    home = overlay(source, tmp_path / "cache")
    assert (home / "bin").resolve() == source / "bin"
    assert (home / "jars").resolve() == source / "jars"
    assert [path.name for path in (home / "python" / "lib").iterdir()] == ["py4j-0.10.9.9-src.zip"]


def test_it_is_made_once(tmp_path: Path) -> None:
    source = _spark(tmp_path / "spark")
    home = overlay(source, tmp_path / "cache")
    made = home.stat().st_ino
    assert overlay(source, tmp_path / "cache") == home
    assert home.stat().st_ino == made


def test_many_at_once_find_one_and_leave_no_draft(tmp_path: Path) -> None:
    source = _spark(tmp_path / "spark")
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: overlay(source, tmp_path / "cache"), range(32)))
    assert list((tmp_path / "cache").iterdir()) == list(homes)


def test_what_executors_left_a_day_ago_is_swept_away(tmp_path: Path) -> None:
    source = _spark(tmp_path / "spark")
    work = overlay(source, tmp_path / "cache") / "work"
    for name in ("app-old", "app-new"):
        (work / name / "0").mkdir(parents=True)
    os.utime(work / "app-old", (0, 0))
    overlay(source, tmp_path / "cache")
    assert [left.name for left in work.iterdir()] == ["app-new"]


def test_another_version_in_the_same_place_is_another_overlay(tmp_path: Path) -> None:
    source = _spark(tmp_path / "spark")
    first = overlay(source, tmp_path / "cache")
    (source / "version.py").write_text("4.3.1")
    assert overlay(source, tmp_path / "cache") != first


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a directory")
    with pytest.raises(OSError, match="cache"):
        overlay(_spark(tmp_path / "spark"), tmp_path / "cache")


def test_the_installed_spark_is_the_one_imported() -> None:
    assert (installed_spark() / "bin" / "spark-submit").is_file()


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/where")
    assert cache_dir() == Path("/some/where/goqueue")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_dir() == Path.home() / ".cache" / "goqueue"
