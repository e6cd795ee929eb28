"""A person's way from one node to five and back to three, with a client that writes all the time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.cluster_process import ClusterProcess
from bench.node_process import NodeProcess
from tests.cluster.clients import Writer, check_kept, make_topic, read_all
from tests.etcd import etcd_program

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]

OLD = [f"old {number}" for number in range(200)]


class Operator:
    """Does what docs/cluster.md says, at any node."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self._cluster = cluster

    def ask(self, method: str, path: str, body: object = None, at: int | None = None) -> Any:
        node = self._cluster.nodes[self._cluster.running[-1] if at is None else at]
        answer = httpx.request(method, f"{node.url}{path}", json=body, timeout=30)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def move(self, **asked: object) -> None:
        """Returns when it is over."""
        plan = self.ask("POST", "/admin/reassignment", {**asked, "dry_run": True})
        assert plan["moves"] and not plan["is_begun"]
        assert self.ask("POST", "/admin/reassignment", asked)["is_begun"]
        self._cluster.wait(lambda: not self.ask("GET", "/admin/reassignment")["moves"], "shards are still moving")

    def held(self) -> dict[int, int]:
        """How many shards each node holds."""
        nodes = self.ask("GET", "/cluster/nodes")["nodes"]
        return {one["id"]: one["leads"] + one["follows"] for one in nodes}

    def take_out(self, number: int) -> None:
        self.move(drain=number)
        assert self.held()[number] == 0
        assert self._cluster.stop(number) == 0
        self._cluster.wait(lambda: self._state(number) == "gone", "a node that was stopped is still there")
        self.ask("DELETE", f"/cluster/nodes/{number}")
        assert number not in self.held()

    def _state(self, number: int) -> str:
        nodes = self.ask("GET", "/cluster/nodes")["nodes"]
        return str(next(one["state"] for one in nodes if one["id"] == number))

    def restart(self, number: int) -> None:
        """When it may go."""
        others = next(one for one in self._cluster.running if one != number)
        path = f"/cluster/nodes/{number}/restart-safe"
        self._cluster.wait(lambda: self.ask("GET", path, at=others)["is_safe"], f"node {number} may not go")
        assert self._cluster.stop(number) == 0
        self._cluster.start(number)


def alone(data: Path) -> None:
    """What the first node does before there is a cluster."""
    with NodeProcess(data) as node:
        messages = [{"key": "old", "value": one} for one in OLD]
        for path, body in (("/topics", {"name": "old"}), ("/topics/old/messages", {"messages": messages})):
            httpx.post(f"{node.url}{path}", json=body, timeout=30).raise_for_status()


def holds_three(cluster: ClusterProcess) -> bool:
    return all(len(one["in_sync"]) == 3 for one in cluster.state()["shards"])


def test_from_one_node_to_five_and_back_to_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    etcd_program()
    alone(tmp_path / "node-0")
    factor = {"GOQUEUE_CLUSTER_NODES": "3", "GOQUEUE_CLUSTER_REPLICATION_FACTOR": "3"}
    with ClusterProcess(tmp_path, nodes=1, settings=factor) as cluster:
        operator, topic = Operator(cluster), make_topic(cluster, partitions=6)
        with Writer(cluster, topic) as writer:
            writer.wait_more()
            cluster.add()
            cluster.add()
            cluster.wait(lambda: holds_three(cluster), "the first node's shards have no replicas")
            writer.wait_more()
            cluster.add()
            cluster.add()
            operator.move(rebalance=True)
            held = operator.held()
            assert len(held) == 5 and min(held.values()) > 1, held
            writer.wait_more()
            cluster.kill(2)
            shutil.rmtree(tmp_path / "node-2")
            cluster.start(2)
            cluster.wait_whole()
            operator.take_out(0)
            operator.take_out(3)
            writer.wait_more()
            for number in cluster.running:
                operator.restart(number)
                cluster.wait_whole()
            writer.wait_more()
        assert writer.failed == []
        check_kept(writer, read_all(cluster, topic, at=cluster.running[0]))
        assert [value.decode() for _, value in read_all(cluster, "old", at=cluster.running[0])] == OLD
    with capsys.disabled():
        print(f"\n{len(writer.acknowledged):,} acknowledged; longest pause {writer.longest_s:.2f} s")
