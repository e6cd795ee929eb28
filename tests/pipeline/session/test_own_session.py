"""A program that makes its Spark session itself, where another `python3` comes first on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import goqueue
from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.pipeline.own_python import put_own_python_first
from goqueue.pipeline.session.java import find_java
from tests.long import only_long
from tests.pipeline.bare import bare_python
from tests.pipeline.topics import make_topic

SOURCES = Path(goqueue.__file__).parents[1]
OWN_SESSION = """
import sys
sys.path.insert(0, sys.argv[1])
{first}
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
{then}
reading = spark.read.format("goqueue").option("url", sys.argv[2]).option("subscribe", sys.argv[3])
print("rows", reading.load().count())
"""


def run(node: NodeProcess, topic: str, elsewhere: Path, first: str = "", then: str = "") -> tuple[str, str]:
    """What the program prints and what it says last, started by its full path as from a crontab."""
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    environ |= {"PATH": f"{elsewhere}:/usr/bin:/bin", "JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    code = OWN_SESSION.format(first=first, then=then)
    command = [sys.executable, "-c", code, str(SOURCES), node.url, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environ)
    return done.stdout, done.stderr.strip().rpartition("\n")[2]


@pytest.mark.slow
@pytest.mark.xdist_group("jvm")
def test_importing_the_connector_first_makes_its_python_the_workers(node: NodeProcess, tmp_path: Path) -> None:
    topic = make_topic(node, "own", 1)
    with Client(node.url) as client:
        client.publish_many(topic, ["a", "b"])
    printed, error = run(node, topic, bare_python(tmp_path), first="import pyspark_goqueue")
    assert printed == "rows 2\n", error


@only_long
@pytest.mark.slow
@pytest.mark.xdist_group("jvm")
def test_a_session_with_another_python_is_told_in_one_line(node: NodeProcess, tmp_path: Path) -> None:
    then = "from goqueue.pipeline.session import session; spark = session()"
    printed, error = run(node, "any", bare_python(tmp_path), then=then)
    assert printed == ""
    assert "WrongPython: Spark starts its workers with python3, which has no goqueue" in error
    assert f"PYSPARK_PYTHON={sys.executable}" in error


def test_the_path_is_changed_once_and_only_in_front() -> None:
    here = str(Path(sys.executable).parent)
    for path, wanted in (("/usr/bin:/bin", f"{here}:/usr/bin:/bin"), (here, here), ("", here)):
        environ = {"PATH": path}
        put_own_python_first(environ)
        put_own_python_first(environ)
        assert environ == {"PATH": wanted}
