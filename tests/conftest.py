"""A real node for tests that go through its doors."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.nodeid import NodeId
from _pytest.unraisableexception import collect_unraisable
from hypothesis import HealthCheck, settings

from bench.node_process import NodeProcess
from tests import of_a_tenant, one_node, one_of_cluster, shared_node
from tests.one_of_cluster import a_node, an_empty_node
from tests.second_try import Failures
from tests.txn.watching import watched

__all__ = ["watched"]  # a fixture


# An example may take as long as a busy machine makes it take.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


# Every JVM that a test starts is over before the better compiler would pay. The room for code is a fifth without it,
# and would not last for what Spark generates: then the JVM dies.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m")


def pytest_configure(config: pytest.Config) -> None:
    """A shell starts `make test &` with SIGINT ignored, and so would be every process that a test interrupts."""
    if not hasattr(config, "workerinput"):  # one for all processes of a run
        config.pluginmanager.register(Failures())
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """What a module's fixture starts is started once: the tests that share it run in one process."""
    if one_node.NODES:
        one_of_cluster.select(config, items)
    if shared_node.ADDRESSES:
        one_of_cluster.keep_those_with_a_node(config, items)
    if of_a_tenant.TENANT:
        of_a_tenant.select(items)
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_with_its_module(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    yield
    for item in items:
        _keep_group(item)
    if getattr(config.option, "loadgroup", False):  # as pytest-xdist tells its processes
        marked = [item for item in items if item.get_closest_marker("xdist_group") is not None]
        assert all("@" in item.nodeid for item in marked), (
            "tests of a group would run anywhere, each with its own Spark"
        )


def _shares_with_its_module(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    used = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values() if found]
    return any(one.scope == "module" and one.func.__module__.startswith("tests.") for one in used)


def _keep_group(item: pytest.Item) -> None:
    """pytest-xdist 3.8 writes the group where pytest 9.2 no longer looks, and then there are no groups."""
    with_group = vars(item).pop("_nodeid", None)
    if with_group is not None:
        item._id = NodeId.parse(with_group)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Against a cluster, clients of every test are pointed at another node."""
    if one_node.NODES:
        one_of_cluster.next_node()


def pytest_sessionfinish(session: pytest.Session) -> None:
    one_of_cluster.end()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a test left open warns when it is collected: in this test, and not in an innocent later one."""
    gc.collect()
    collect_unraisable(item.config)  # pytest looked before us
    if nextitem is None or nextitem.path != item.path:
        gc.freeze()  # what modules hold is not looked through again after every test


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node of the test's own, in its own process."""
    with an_empty_node(tmp_path / "data") as running:
        yield running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that many tests share; each uses topics of its own."""
    with a_node(tmp_path_factory.mktemp("shared") / "data") as running:
        yield running


@pytest.fixture
def server_url(server: NodeProcess) -> str:
    return server.url
