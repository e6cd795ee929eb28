"""A person's way from one node to five and back to three, with a client that writes all the time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from bench.cluster_process import ClusterProcess
from bench.node_process import NodeProcess
from chaos.operator import Operator
from tests.cluster.clients import Writer, check_kept, make_topic, read_all
from tests.etcd import etcd_program

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]

OLD = [f"old {number}" for number in range(200)]


def alone(data: Path) -> None:
    """What the first node does before there is a cluster."""
    with NodeProcess(data) as node:
        messages = [{"key": "old", "value": one} for one in OLD]
        for path, body in (("/topics", {"name": "old"}), ("/topics/old/messages", {"messages": messages})):
            httpx.post(f"{node.url}{path}", json=body, timeout=30).raise_for_status()


def holds_three(cluster: ClusterProcess) -> bool:
    return all(len(one["in_sync"]) == 3 for one in cluster.state()["shards"])


def command(cluster: ClusterProcess, number: int, *words: str) -> str:
    """`goqueue cluster ...`, asked of one node."""
    program = [sys.executable, "-c", "from goqueue.cli import main; main()", "--server", cluster.nodes[number].url]
    done = subprocess.run([*program, "cluster", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def scale_down(cluster: ClusterProcess, nodes: int) -> None:
    """The last node goes, as hooks of Kubernetes do it: drained first, taken out when it is stopped."""
    command(cluster, 1, "scale", str(nodes))
    assert cluster.stop(nodes) == 0
    command(cluster, 1, "scale", str(nodes), "--finish", "--within", "2m")


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
            scale_down(cluster, 4)
            assert operator.held().keys() == {1, 2, 3}
            writer.wait_more()
            first, *others = cluster.running
            assert "may go" in command(cluster, first, "hand-over")
            assert operator.leads(first) == 0
            assert cluster.stop(first) == 0
            cluster.start(first)
            cluster.wait_whole()
            for number in others:
                operator.restart(number)
                cluster.wait_whole()
            writer.wait_more()
        assert writer.failed == []
        check_kept(writer, read_all(cluster, topic, at=cluster.running[0]))
        assert [value.decode() for _, value in read_all(cluster, "old", at=cluster.running[0])] == OLD
    with capsys.disabled():
        print(f"\n{len(writer.acknowledged):,} acknowledged; longest pause {writer.longest_s:.2f} s")
