"""One Spark session for all tests of a process, and real nodes to read from and write to.

A test that uses `spark` says `pytestmark = pytest.mark.xdist_group("spark")`, so that one process runs them all. One
that starts JVMs of its own says `xdist_group("jvm")`: one such test at a time, beside those.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench.node_process import NodeProcess
from tests.one_of_cluster import a_node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


THREADS_S: Final = 5.0


class Sessions:
    """The process's one session. A test that failed may have spoiled it: then the next one gets a new JVM."""

    running: SparkSession | None = None
    is_suspect = False

    def prepare(self) -> None:
        """Outside of fixtures: pytest would give the failure of one start to every test that follows."""
        if self.running is None:
            self.running = self.start()
        elif self.is_suspect:
            self.restart()
        self.is_suspect = False

    def start(self) -> SparkSession:
        """Two cores, two attempts a task, 1 GB of heap."""
        from goqueue.pipeline.session import session

        return session("tests", "local[2,2]", settings={"spark.driver.memory": "1g"})

    def restart(self) -> None:
        """Whoever holds the session holds the new one: the object stays, and what is in it is replaced."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        held = self.running
        assert held is not None
        with _unheard():
            _kill(SparkContext._gateway)
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = None
            vars(held).clear()
        vars(held).update(vars(self.start()))
        SparkSession._instantiatedSession = held


def _kill(gateway: Any) -> None:
    """The JVM, and the threads here that talked to it."""
    foreign = threading._DummyThread  # of a library; those end by themselves
    here = threading.current_thread()
    before = [one for one in threading.enumerate() if one is not here and not isinstance(one, foreign)]
    gateway.proc.kill()
    gateway.proc.communicate()
    with suppress(Exception):
        gateway.shutdown()
    deadline = time.monotonic() + THREADS_S
    for one in before:
        one.join(max(0.0, deadline - time.monotonic()))


@contextmanager
def _unheard() -> Iterator[None]:
    """What breaks because a JVM was killed under it was told by the test that failed, and is no other's failure."""
    hooks = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = lambda told: None
    threading.excepthook = lambda told: None
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook, threading.excepthook = hooks


SESSIONS = Sessions()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "spark" in getattr(item, "fixturenames", ()):
        SESSIONS.prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and "spark" in getattr(item, "fixturenames", ()):
        SESSIONS.is_suspect = True
    return report


@pytest.fixture(autouse=True)
def no_query_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A query that a test leaves running is that test's failure, and disturbs no other."""
    yield
    if SESSIONS.running is not None and not SESSIONS.is_suspect and "spark" in request.fixturenames:
        left = SESSIONS.running.streams.active
        for query in left:
            query.stop()
        assert not left, f"the test left {len(left)} queries running"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    assert SESSIONS.running is not None
    yield SESSIONS.running
    SESSIONS.running.stop()


@pytest.fixture(scope="module")
def module_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that the tests of a module share; each uses topics of its own. Take `node` for one that may be killed."""
    with a_node(tmp_path_factory.mktemp("node") / "data") as running:
        yield running
