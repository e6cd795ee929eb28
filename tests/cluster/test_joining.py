"""Nodes that cannot join, or not yet: what they say, and that nothing is harmed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.cluster_process import ClusterProcess
from goqueue.cli.cluster_dir import HOST, free_ports
from tests.certificates import Authority
from tests.cli.running import COMMAND
from tests.cluster.clients import Writer, check_kept, make_topic, read_all
from tests.etcd import EtcdMember, etcd_members
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    with etcd_members(tmp_path_factory.mktemp("etcd")) as (member,):
        yield member


class Starting:
    """A `goqueue serve` that may or may not get ready."""

    def __init__(self, data: Path, store: str, **settings: str) -> None:
        first = free_ports(4)
        self.url = f"http://{HOST}:{first}"
        flags = ["--data", str(data), "--rest", f"{HOST}:{first}", "--kafka", "off", "--sqs", "off", "--grpc", "off"]
        chosen = {
            "GOQUEUE_CLUSTER_STORE": store,
            "GOQUEUE_CLUSTER_LISTEN": f"{HOST}:{first + 1}",
            "GOQUEUE_CLUSTER_NAME": data.parent.name.replace("_", "-"),
            "GOQUEUE_LOG_DISK_USED_PERCENT_MAX": "100",
            "GOQUEUE_CLUSTER_NODES": "1",
            "GOQUEUE_CLUSTER_REPLICATION_FACTOR": "1",
            **{f"GOQUEUE_{name}": value for name, value in settings.items()},
        }
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *flags],
            env={**environ, **chosen},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def answers(self, path: str) -> int:
        try:
            return httpx.get(f"{self.url}{path}", timeout=10).status_code
        except httpx.HTTPError:
            return 0

    def wait_ready(self) -> None:
        wait_until(lambda: self.answers("/readyz") == 200 or self.process.poll() is not None, "ready")
        assert self.process.poll() is None, self.ended()

    def ended(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=120)
        return self.process.returncode, said

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()


def test_a_node_that_waits_for_others_is_alive_and_not_ready_and_can_be_stopped(
    etcd: EtcdMember, tmp_path: Path
) -> None:
    node = Starting(tmp_path / "d", f"etcd://{etcd.client}", CLUSTER_NODES="2")
    wait_until(lambda: node.answers("/livez") == 200, "alive")
    told = httpx.get(f"{node.url}/readyz")
    assert told.status_code == 503 and "not in the cluster yet" in told.json()["checks"]["cluster"]["detail"]
    refused = httpx.get(f"{node.url}/topics")
    assert refused.status_code == 503 and refused.json()["code"] == "not-loaded"
    code, said = node.stop()
    assert code == 0 and "stopped before it was in its cluster" in said
    alone = Starting(tmp_path / "d", f"etcd://{etcd.client}")
    alone.wait_ready()
    assert alone.stop()[0] == 0


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, said = Starting(tmp_path / "d", f"etcd://{HOST}:1").ended()
    assert code == 1 and f"etcd://{HOST}:1" in said and "store-unreachable" in said
    assert "Traceback" not in said


def test_a_number_that_is_taken_is_refused_and_its_owner_goes_on(etcd: EtcdMember, tmp_path: Path) -> None:
    first = Starting(tmp_path / "d", f"etcd://{etcd.client}")
    first.wait_ready()
    code, said = Starting(tmp_path / "e", f"etcd://{etcd.client}", CLUSTER_SESSION_MS="1000").ended()
    assert code == 1 and "Node 0 is running already" in said
    assert first.answers("/readyz") == 200
    assert first.stop()[0] == 0


def test_the_data_of_another_cluster_or_node_is_refused(etcd: EtcdMember, tmp_path: Path) -> None:
    store = f"etcd://{etcd.client}"
    first = Starting(tmp_path / "d", store)
    first.wait_ready()
    assert first.stop()[0] == 0
    code, said = Starting(tmp_path / "d", store, CLUSTER_NODES="2", NODE_ID="1").ended()
    assert code == 1 and "belongs to node 0, not to node 1" in said
    other = Starting(tmp_path / "e", store, CLUSTER_NAME="another")
    other.wait_ready()
    assert other.stop()[0] == 0
    code, said = Starting(tmp_path / "d", store, CLUSTER_NAME="another").ended()
    assert code == 1 and "belongs to cluster" in said
    again = Starting(tmp_path / "d", store)
    again.wait_ready()
    assert again.stop()[0] == 0, "nothing was harmed"


def test_a_node_that_was_stopped_is_the_same_afterwards(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path / "c", nodes=1) as cluster:
        url = cluster.nodes[0].url
        httpx.post(f"{url}/topics", json={"name": "kept", "num_partitions": 1}).raise_for_status()
        sent = {"messages": [{"value": "v"}]}
        httpx.post(f"{url}/topics/kept/messages", json=sent, timeout=60).raise_for_status()
        assert cluster.stop(0) == 0
        cluster.heal()
        page = httpx.get(f"{url}/topics/kept/messages", params={"from": "earliest", "timeout": "10s"}, timeout=60)
        assert [one["value"] for one in page.json()["messages"]] == ["v"]


def test_a_node_that_lost_its_disk_gets_everything_from_the_others(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path / "c") as cluster:
        topic = make_topic(cluster)
        with Writer(cluster, topic) as writer:
            writer.wait_more(200)
            cluster.kill(1)
            shutil.rmtree(cluster.nodes[1].data_dir)
            writer.wait_more(200)
            cluster.heal()
            writer.wait_more(200)
        cluster.kill(0)
        wait_until(lambda: is_led_without(cluster, 0), "nobody took over")
        check_kept(writer, read_all(cluster, topic))
        cluster.heal()


def is_led_without(cluster: ClusterProcess, gone: int) -> bool:
    return all(shard["leader"] not in (None, gone) for shard in cluster.state()["shards"])


def test_a_node_without_the_secret_is_not_let_in(etcd: EtcdMember, tmp_path: Path) -> None:
    store, secret = f"etcd://{etcd.client}", tmp_path / "secret"
    secret.write_text("of this cluster, 0123456789abcdef".replace(" ", "-"))
    files = Authority(tmp_path / "authority").sign("node").settings()
    trusted = {"CLUSTER_SECRET_FILE": str(secret), **{f"CLUSTER_{key.upper()}": path for key, path in files.items()}}
    first = Starting(tmp_path / "d", store, **trusted)
    first.wait_ready()
    code, said = Starting(tmp_path / "e", store, **{**trusted, "CLUSTER_SECRET_FILE": ""}, NODE_ID="1").ended()
    assert code == 1 and "wrong-secret" in said and "Traceback" not in said
    wrong = {**trusted, "CLUSTER_SECRET_FILE": "", "CLUSTER_SECRET": "of-another-cluster-0123"}
    code, said = Starting(tmp_path / "e", store, **wrong, NODE_ID="1").ended()
    assert code == 1 and "wrong-secret" in said and "of-another-cluster" not in said
    nodes = httpx.get(f"{first.url}/cluster/nodes").json()["nodes"]
    assert [one["id"] for one in nodes] == [0], "it was not even counted"
    second = Starting(tmp_path / "e", store, **trusted, NODE_ID="1")
    second.wait_ready()
    assert {one["id"] for one in httpx.get(f"{first.url}/cluster/nodes").json()["nodes"]} == {0, 1}
    assert httpx.get(f"{second.url}/topics").status_code == 200, (
        "what the first node leads is asked for through the port"
    )
    assert second.stop()[0] == 0 and first.stop()[0] == 0


def test_nobody_waits_for_a_node_that_dies_while_a_cluster_starts(tmp_path: Path) -> None:
    cluster = ClusterProcess(tmp_path / "c", nodes=2, programs=["import sys; sys.exit('dies at once')"])
    with pytest.raises(RuntimeError, match="did not start"), cluster:
        pass
    assert not any(node.is_alive for node in cluster.nodes)
