"""The session itself, and the surroundings it starts in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.pipeline.session import session
from goqueue.pipeline.session.java import Java
from goqueue.pipeline.session.session import launch_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
JAVA = Java(Path("/some/java"), 17)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "goqueue"


def test_on_this_machine_workers_are_this_python_under_the_overlay(cache: Path) -> None:
    wanted = launch_environment({}, JAVA, is_local=True)
    assert wanted["JAVA_HOME"] == "/some/java"
    assert wanted["PYSPARK_PYTHON"] == sys.executable
    assert wanted["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert Path(wanted["SPARK_HOME"]).parent == cache


@pytest.mark.parametrize("given", [{"SPARK_HOME": "/opt/spark"}, {"PYSPARK_PYTHON": "/usr/bin/python3"}])
def test_a_spark_or_a_python_of_the_users_own_is_left_alone(cache: Path, given: dict[str, str]) -> None:
    wanted = launch_environment(given, JAVA, is_local=True)
    assert "SPARK_HOME" not in wanted
    assert wanted["PYSPARK_PYTHON"] == given.get("PYSPARK_PYTHON", sys.executable)
    assert not cache.exists()


def test_where_no_overlay_can_be_kept_it_works_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "SPARK_HOME" not in launch_environment({}, JAVA, is_local=True)


def test_for_a_cluster_only_the_meaning_of_python3_is_set(cache: Path) -> None:
    wanted = launch_environment({"PATH": "/usr/bin"}, JAVA, is_local=False)
    assert wanted == {"JAVA_HOME": "/some/java", "PATH": f"{Path(sys.executable).parent}:/usr/bin"}


def test_the_running_session_is_set_as_told(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    assert "SPARK_LOCAL_IP" not in os.environ, "our own environment is as before"


def test_a_second_call_gives_the_running_session(spark: SparkSession) -> None:
    assert session("another", "local[2,2]").sparkContext is spark.sparkContext


def test_the_format_is_found_without_registering_it(spark: SparkSession) -> None:
    frame = spark.read.format("goqueue").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "t")
    assert frame.load().columns[:2] == ["key", "value"]


def test_workers_load_the_installed_pyspark_and_not_an_archive(spark: SparkSession) -> None:
    def where(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        import pyspark

        for _ in batches:
            yield pyarrow.record_batch({"at": [pyspark.__file__]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(where, "at STRING").collect()
    assert row.at.endswith("site-packages/pyspark/__init__.py")
