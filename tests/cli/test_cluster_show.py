"""`goqueue cluster status|nodes|shards` and the routes behind them, against a real node."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from goqueue.api.cluster import ClusterHealth, ClusterNode, ClusterShard, ClusterState, ReplicationLag
from goqueue.cli.cluster_dir import ClusterDir, ClusterFile, LocalProcess
from goqueue.cli.cluster_show import show_shards, show_status
from tests.cli.running import goqueue


def test_a_node_that_is_alone_shows_itself(server_url: str) -> None:
    status = goqueue("cluster", "status", server=server_url)
    assert status.exit_code == 0, status.output
    assert "status      ok\n" in status.stdout and "controller  node 0\n" in status.stdout
    assert server_url in goqueue("cluster", "nodes", server=server_url).stdout
    shards = goqueue("cluster", "shards", server=server_url).stdout.splitlines()
    assert shards[0].split()[:3] == ["SHARD", "CONDITION", "LEADER"]
    assert all(line.split()[1:3] == ["ok", "0"] for line in shards[1:]) and len(shards) > 1


def test_as_json(server_url: str) -> None:
    told = json.loads(goqueue("cluster", "status", "--output", "json", server=server_url).stdout)
    assert told["health"]["status"] == "ok" and told["state"]["node"] == 0
    nodes = json.loads(goqueue("cluster", "nodes", "--output", "json", server=server_url).stdout)
    shards = json.loads(goqueue("cluster", "shards", "--output", "json", server=server_url).stdout)
    with httpx.Client(base_url=server_url) as http:
        assert http.get("/cluster/nodes").json()["nodes"] == nodes
        assert http.get("/v1/cluster/shards").json()["shards"] == shards
        assert http.get("/cluster/health").json() == told["health"]
        assert http.get("/cluster/state").json()["cluster_id"] == told["state"]["cluster_id"]
        http.post("/topics", json={"name": "shown", "num_partitions": 2}).raise_for_status()
        (topic,) = http.get("/cluster/metadata", params={"topic": "shown"}).json()["topics"]
        assert [one["leader"] for one in topic["partitions"]] == [0, 0]
        assert http.get("/cluster/metadata", params={"topic": "nothing"}).status_code == 404
        assert http.get("/cluster/state", params={"nonsense": "1"}).status_code == 400


def test_a_directory_names_the_node_to_ask(server_url: str, tmp_path: Path) -> None:
    directory = ClusterDir(tmp_path)
    none = goqueue("cluster", "status", "--data", str(tmp_path))
    assert none.exit_code == 1 and "names no node that runs" in none.stderr
    dead = LocalProcess(0, 1, {"rest": "http://127.0.0.1:1"})
    directory.write(ClusterFile([dead, LocalProcess(1, 1, {"rest": server_url})]))
    assert goqueue("cluster", "status", "--data", str(tmp_path)).exit_code == 0
    directory.write(ClusterFile([dead]))
    assert goqueue("cluster", "status", "--data", str(tmp_path)).exit_code == 3


def test_what_is_wrong_stands_in_the_tables(capsys) -> None:  # type: ignore[no-untyped-def]
    lag = {1: ReplicationLag(1_200, 3_400), 2: ReplicationLag(0, 0)}
    shards = [
        ClusterShard(0, "at-minimum", 0, 5, [0, 1, 2], [0, 2], [], 2, 4, lag),
        ClusterShard(1, "offline", None, 2, [1, 2, 0], [1], [2], 2, 4),
    ]
    nodes = [ClusterNode(1, "gone", is_controller=False, leads=0, follows=2, in_sync=1)]
    state = ClusterState("id", 0, None, 17, "unavailable", nodes, shards)
    show_status(state, ClusterHealth("unavailable", "id", 2, 1, 2, 2, 1, 0, 1, ["node 1 is gone"]))
    show_shards(shards)
    printed = capsys.readouterr().out
    assert "status      unavailable\ncontroller  nobody\nnodes       2 alive, 1 gone\n" in printed
    assert "problem     node 1 is gone\n" in printed
    assert "   1  gone   -               0        2  1 of 2   -        -     -     -\n" in printed
    assert (
        "    0  at-minimum  0           5  0,1,2     0,2            2           4  node 1: 1,200 messages, 3,400 ms"
        in printed
    )
    assert "    1  offline     -           2  1,2,0     1              2           4  -\n" in printed
