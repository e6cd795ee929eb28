"""`NODE_CLUSTER=3` in the environment: tests of doors run against a cluster, each pointed at another node of it.

One etcd and so many nodes are started for the whole run. A fixture takes its node from `a_node`; tests without such a
fixture start nodes of their own, with settings that they are about, and are left out. So is what `tests/one_node.py`
lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self, cast

import httpx
import pytest

from bench.cluster_process import ClusterProcess
from bench.node_process import NodeProcess
from tests import shared_node
from tests.etcd import etcd_program
from tests.one_node import NODES, ONE_NODE

# What fixtures of the suites ask of their nodes, together: heartbeats that show a rebalance soon, and old timestamps.
SETTINGS: Final = {"GOQUEUE_GROUPS_HEARTBEAT_MS": "300", "GOQUEUE_TOPICS_RETENTION_MS": "-1"}


@contextmanager
def a_node(data: Path, settings: Mapping[str, str] | None = None) -> Iterator[NodeProcess]:
    """A node alone, or, in a run against a cluster, the one of it whose turn it is."""
    if NODES:
        yield cast(NodeProcess, OneOfCluster(_run.cluster()))
        return
    if shared_node.ADDRESSES:
        yield cast(NodeProcess, shared_node.SharedNode())
        return
    with NodeProcess(data, settings=dict(settings or {})) as running:
        yield running


@contextmanager
def an_empty_node(data: Path) -> Iterator[NodeProcess]:
    """One that no other test uses: a cluster is emptied for it, and whole again when it is over."""
    with a_node(data) as node:
        if NODES or shared_node.ADDRESSES:
            empty(node.url)
        yield node
        if NODES:
            _run.cluster().heal()
            settle(_run.cluster())


class OneOfCluster:
    """As a `NodeProcess`: the node whose turn it is. What is done to it is done to that one; the others run on."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster.nodes[_run.turn], name)

    def kill(self) -> None:
        self._cluster.kill(_run.turn)

    def stop(self) -> int:
        return self._cluster.stop(_run.turn)

    def start(self) -> Self:
        self._cluster.start(_run.turn)
        settle(self._cluster)
        return self


class Run:
    """The cluster of a run, from the first test that needs it, and whose turn it is."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._cluster: ClusterProcess | None = None
        self.turn = 0

    def cluster(self) -> ClusterProcess:
        if self._cluster is None:
            etcd_program()
            root = self._stack.enter_context(TemporaryDirectory(prefix="cluster-"))
            self._cluster = self._stack.enter_context(ClusterProcess(Path(root), NODES, settings=SETTINGS))
        return self._cluster

    def next(self) -> None:
        self.turn = (self.turn + 1) % NODES

    def end(self) -> None:
        self._stack.close()


_run: Final = Run()


def empty(url: str) -> None:
    """No topic, group or subject is left."""
    with httpx.Client(base_url=url, timeout=60) as http:
        for one in http.get("/groups").json()["groups"]:
            http.delete(f"/groups/{one['group']}")
        for one in http.get("/topics").json()["topics"]:
            http.delete(f"/topics/{one['name']}")
        for subject in http.get("/subjects").json():
            http.delete(f"/subjects/{subject}")


def settle(cluster: ClusterProcess) -> None:
    """Whole, and led as at the beginning: nothing moves by itself any more."""
    cluster.wait_whole()
    cluster.wait(
        lambda: all(one["leader"] == one["replicas"][0] for one in cluster.state()["shards"]), "leaders are not back"
    )


# --- what pytest is told -----------------------------------------------------------------------------------------


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only tests that take their node from `a_node` run against a cluster."""
    keep_those_with_a_node(config, items)
    for item in items:
        if (why := _why_not(item.nodeid)) is not None:
            item.add_marker(pytest.mark.skip(reason=why))


def keep_those_with_a_node(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = [item for item in items if _takes_a_node(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(wanted)])
    items[:] = wanted


def _takes_a_node(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    used = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values() if found]
    return any({"a_node", "an_empty_node"} & set(_plain(one.func).__code__.co_names) for one in used)


def _plain(function: Any) -> Any:
    return getattr(function, "__wrapped__", function)


def _why_not(nodeid: str) -> str | None:
    return next((why for why, tests in ONE_NODE.items() if any(_names(one, nodeid) for one in tests)), None)


def _names(one: str, nodeid: str) -> bool:
    """A file, or a test with all its parameters or with some."""
    name = nodeid.removeprefix("tests/").split("@")[0]
    return one in (name, name.split("[")[0], name.split("::")[0])


def next_node() -> None:
    """Before each test."""
    _run.next()


def end() -> None:
    _run.end()
