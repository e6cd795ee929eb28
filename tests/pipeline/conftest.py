"""One Spark session for all tests of a process, and real nodes to read from and write to.

A test that uses `spark` says `pytestmark = pytest.mark.xdist_group("spark")`, so that one process runs them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bench.node_process import NodeProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, two attempts a task, 1 GB of heap."""
    from goqueue.pipeline.session import session

    # Small queries end before the better compiler would pay. The room for code is a fifth without it, and would not
    # last for what Spark generates in all tests: then the JVM dies.
    java = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    quick = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": java}
    running = session("tests", "local[2,2]", settings=quick)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def module_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that the tests of a module share; each uses topics of its own. Take `node` for one that may be killed."""
    with NodeProcess(tmp_path_factory.mktemp("node") / "data") as running:
        yield running
