"""The example project of Declarative Pipelines: a first run, and a second one that goes on from there.

It takes a minute of CPU, and packages of its own: `pip install 'pyspark[pipelines]'`, then `GOQUEUE_LONG_TESTS=1`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from bench.node_process import NodeProcess
from goqueue.client import Client, NewMessage
from goqueue.pipeline.session.java import find_java
from tests.long import LONG

pytestmark = [
    pytest.mark.xdist_group("jvm"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not LONG, reason="runs with GOQUEUE_LONG_TESTS=1"),
]
PROJECT = Path(__file__).parents[2] / "examples" / "pipelines" / "orders"
PROGRAM = Path(sys.executable).parent / "spark-pipelines"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy that keeps its tables to itself."""
    for module in ("grpc", "grpc_status", "yaml"):
        pytest.importorskip(module, reason="spark-pipelines needs the packages of pyspark[pipelines]")
    copy = tmp_path / "orders"
    shutil.copytree(PROJECT, copy)
    spec = copy / "spark-pipeline.yml"
    told = spec.read_text()
    assert "/tmp/goqueue-orders" in told
    spec.write_text(told.replace("/tmp/goqueue-orders", str(tmp_path)))
    return copy


def run(project: Path, url: str) -> None:
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(project / "warehouse"),
        "spark.driver.memory": "1g",
        "spark.goqueue.url": url,
    }
    told = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}
    # A run is over before the better compiler would pay, and its catalog need not outlive the machine.
    environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -Dderby.system.durability=test"
    environ.pop("SPARK_HOME", None)
    done = subprocess.run([PROGRAM, "run", *told], cwd=project, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def publish(client: Client, numbers: range) -> None:
    messages = [NewMessage(f'{{"total": {n}}}', key=f"user-{n % 3}") for n in numbers]
    client.publish_many("orders", messages)


def totals(project: Path, table: str) -> list[int]:
    found = ds.dataset(sorted((project / "warehouse" / table).glob("*.parquet"))).to_table(columns=["total"])
    return sorted(found["total"].to_pylist())


def test_a_second_run_goes_on_where_the_first_stopped(project: Path, node: NodeProcess) -> None:
    with Client(node.url) as client:
        client.create_topic("orders", 2)
        publish(client, range(90))
        run(project, node.url)
        assert totals(project, "orders") == list(range(90))
        publish(client, range(90, 99))
        run(project, node.url)
    assert totals(project, "orders") == list(range(99))
    assert totals(project, "spent") == sorted(sum(range(start, 99, 3)) for start in range(3))
