"""A test that times out inside Spark costs itself, and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import only_long

pytestmark = [only_long, pytest.mark.slow, pytest.mark.xdist_group("jvm"), pytest.mark.timeout(900)]

FOUR = """
import time

import pytest

pytest_plugins = ["tests.pipeline.conftest"]


@pytest.fixture(scope="module")
def held(spark):
    return spark


def test_starts(spark, held):
    assert spark.range(3).count() == 3


@pytest.mark.timeout(8)
def test_hangs(spark):
    for _ in range(4):  # all cores, and more waits
        import threading
        threading.Thread(target=lambda: spark.range(1).foreach(lambda row: time.sleep(3600)), daemon=True).start()
    spark.range(1).foreach(lambda row: time.sleep(3600))


def test_leaves_a_query(spark):
    spark.readStream.format("rate").load().writeStream.format("noop").start()


def test_works(spark, held):
    assert held is spark
    assert spark.range(7).count() == 7
    assert [one.name for one in spark.streams.active] == []
"""


def test_a_test_that_hangs_in_spark_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / "test_four.py").write_text(FOUR)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "pyproject.toml", "--rootdir", "."]
    done = subprocess.run([*command, "-q", str(tmp_path)], capture_output=True, text=True, timeout=800)
    assert "1 failed, 3 passed, 1 error" in done.stdout, done.stdout
    assert "FAILED" in done.stdout and "test_hangs" in done.stdout
    assert "the test left 1 queries running" in done.stdout
