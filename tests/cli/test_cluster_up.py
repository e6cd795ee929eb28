"""`goqueue cluster up` and `goqueue cluster node`: an etcd and nodes on this machine, looked after by one program."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from goqueue.cli.cluster_dir import ClusterDir, ClusterFile, LocalProcess, free_ports, is_free, runs
from goqueue.cli.cluster_plan import base_port_of, node_addresses, node_plan, planned
from goqueue.cli.cluster_up import LocalCluster, is_ready
from goqueue.cli.failures import Failed, Misused
from tests.cli.running import COMMAND, goqueue
from tests.etcd import etcd_program
from tests.waiting import wait_until


class Up:
    """One `goqueue cluster up`, and what it says."""

    def __init__(self, data: Path, *flags: str) -> None:
        self.data = data
        environ = {**os.environ, "ETCD": str(etcd_program()), "GOQUEUE_LOG_DISK_USED_PERCENT_MAX": "100"}
        self._said = data.parent / f"{data.name}.said"
        with self._said.open("a") as said:
            command = [*COMMAND, "cluster", "up", "--data", str(data), *flags]
            self.process = subprocess.Popen(command, stdout=said, stderr=said, env=environ)

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_said(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.said.count(text) >= times, lambda: f"{text!r} in\n{self.said}")

    def known(self) -> dict[str, Any]:
        known: dict[str, Any] = json.loads((self.data / "cluster.json").read_text())
        return known

    def pid(self, node: int) -> int | None:
        pid: int | None = self.known()["nodes"][node]["pid"]
        return pid

    def url(self, node: int) -> str:
        return str(self.known()["nodes"][node]["addresses"]["rest"])

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


@contextmanager
def up(data: Path, *flags: str) -> Iterator[Up]:
    started = Up(data, *flags)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.stop()
        for one in (known := ClusterDir(data).read()).nodes + known.etcd:
            if runs(one.pid, data):
                os.kill(one.pid or 0, signal.SIGKILL)


def pids(known: dict[str, Any]) -> list[int | None]:
    return [one["pid"] for one in (*known["nodes"], *known["etcd"])]


def is_alive(pid: int | None) -> bool:
    """A process that has ended may still be listed, until somebody asks how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ports_follow_the_first_one_and_stay() -> None:
    first = planned(ClusterFile(), 3, 9000)
    assert [one.addresses for one in first.etcd] == [
        {"client": "http://127.0.0.1:9000", "peer": "http://127.0.0.1:9001"}
    ]
    assert first.nodes[2].addresses == {
        "rest": "http://127.0.0.1:9030",
        "kafka": "127.0.0.1:9031",
        "sqs": "http://127.0.0.1:9032",
        "node": "127.0.0.1:9033",
        "grpc": "127.0.0.1:9034",
    }
    assert base_port_of(first) == 9000
    assert base_port_of(ClusterFile()) is None
    more = planned(first, 4, 9000)
    assert more.nodes[:3] == first.nodes and more.etcd == first.etcd
    with pytest.raises(Failed, match="There are 3 nodes here already; start as many or more, not 2"):
        planned(first, 2, 9000)


def test_ports_end_where_there_are_no_more() -> None:
    assert planned(ClusterFile(), 3, 65_400).nodes[2].addresses["grpc"].endswith(":65434")
    with pytest.raises(Misused, match="100 nodes need the ports 65000 to 66009"):
        planned(ClusterFile(), 100, 65_000)


def test_free_ports_are_free_and_in_a_row() -> None:
    first = free_ports(40)
    assert all(is_free(port) for port in range(first, first + 40))


@pytest.mark.parametrize(("nodes", "factor"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_a_node_is_told_its_place_and_the_factor_that_so_many_nodes_allow(
    tmp_path: Path, nodes: int, factor: str
) -> None:
    known = planned(ClusterFile(), nodes, 9000)
    plan = node_plan(ClusterDir(tmp_path), known.nodes[0], known, {"GOQUEUE_LOG_FSYNC": "always", "HOME": "/h"})
    settings = {name: value for name, value in plan.environ.items() if name.startswith("GOQUEUE_")}
    assert settings == {
        "GOQUEUE_LOG_FSYNC": "always",
        "GOQUEUE_NODE_ID": "0",
        "GOQUEUE_CLUSTER_STORE": "etcd://127.0.0.1:9000",
        "GOQUEUE_CLUSTER_LISTEN": "127.0.0.1:9013",
        "GOQUEUE_CLUSTER_NODES": str(nodes),
        "GOQUEUE_CLUSTER_REPLICATION_FACTOR": factor,
        "GOQUEUE_CLUSTER_SECRET_FILE": str(tmp_path / "secret"),
    }
    named = node_plan(ClusterDir(tmp_path), known.nodes[0], known, {"GOQUEUE_CLUSTER_REPLICATION_FACTOR": "1"})
    assert named.environ["GOQUEUE_CLUSTER_REPLICATION_FACTOR"] == "1"


def test_the_file_is_read_while_it_is_written(tmp_path: Path) -> None:
    directory = ClusterDir(tmp_path)
    assert directory.read() == ClusterFile()
    known = ClusterFile([LocalProcess(0, 17, node_addresses(9000, 0))])
    directory.write(known)
    assert directory.read() == known
    assert known.node(0).pid == 17
    with pytest.raises(Failed, match="There is no node 7 here; there are 0"):
        known.node(7)
    directory.file.write_text("{")
    with pytest.raises(Failed, match=r"cluster\.json cannot be read"):
        directory.read()


def test_a_process_number_that_was_used_again_is_not_taken_for_a_node(tmp_path: Path) -> None:
    assert not runs(os.getpid(), tmp_path / "node-0")
    assert not runs(None, tmp_path)


@pytest.mark.parametrize("verb", ["start", "stop", "kill"])
def test_drills_need_a_cluster(tmp_path: Path, verb: str) -> None:
    done = goqueue("cluster", "node", verb, "0", "--data", str(tmp_path))
    assert done.exit_code == 1 and "no cluster was started" in done.stderr
    ClusterDir(tmp_path).write(planned(ClusterFile(), 1, 9000))
    done = goqueue("cluster", "node", verb, "0", "--data", str(tmp_path))
    assert done.exit_code == 1
    assert ("No `goqueue cluster up` runs" if verb == "start" else "does not run") in done.stderr


def test_a_port_of_etcd_that_is_taken_is_told_before_anything_starts(tmp_path: Path) -> None:
    data, port = ClusterDir(tmp_path), free_ports(20)
    known, said = planned(ClusterFile(), 1, port), list[str]()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(Failed, match=f"Port {port}, for etcd, is in use"):
        LocalCluster(data, known, Path("/nowhere/etcd"), False, said.append).run({})
    assert said == ["stopped"] and not data.log_of("etcd").exists()


def test_an_etcd_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    false = tmp_path / "etcd"
    false.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "etcd Version: 3.6.9" && exit\necho broken disk; exit 3\n'
    )
    false.chmod(0o755)
    command = [*COMMAND, "cluster", "up", "--data", str(tmp_path / "c")]
    done = subprocess.run(command, env={**os.environ, "ETCD": str(false)}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f"etcd did not start; its log is {tmp_path / 'c/etcd.log'}:\nbroken disk" in done.stderr


@pytest.mark.slow
def test_nodes_are_started_killed_started_again_and_stopped_together(tmp_path: Path) -> None:
    data = tmp_path / "c"
    with up(data, "--nodes", "2") as running:
        running.wait_said("Ready. ")
        before = running.known()
        for node in before["nodes"]:
            assert httpx.get(f"{node['addresses']['rest']}/version").status_code == 200
        httpx.post(f"{running.url(0)}/topics", json={"name": "kept"}).raise_for_status()

        second = goqueue("cluster", "up", "--data", str(data), "--nodes", "2")
        assert second.exit_code == 1 and "runs for" in second.stderr

        assert goqueue("cluster", "node", "kill", "1", "--data", str(data)).exit_code == 0
        running.wait_said("node 1  was killed (SIGKILL); its log is ")
        assert running.pid(1) is None
        assert running.known()["nodes"][0] == before["nodes"][0]
        again = goqueue("cluster", "node", "start", "1", "--data", str(data))
        assert again.exit_code == 0, again.output
        assert running.pid(1) not in (None, before["nodes"][1]["pid"])
        assert running.url(1) == before["nodes"][1]["addresses"]["rest"]
        twice = goqueue("cluster", "node", "start", "1", "--data", str(data))
        assert twice.exit_code == 1 and "runs already" in twice.stderr

        assert goqueue("cluster", "node", "stop", "0", "--data", str(data)).exit_code == 0
        running.wait_said("node 0  stopped; its log is ")
        assert goqueue("cluster", "node", "start", "0", "--data", str(data)).exit_code == 0

        alive = pids(running.known())
        assert running.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in alive)
        assert pids(running.known()) == [None, None, None]
        assert running.said.endswith("stopping\nstopped\n")

    with up(data, "--nodes", "2") as running:
        running.wait_said("Ready. ", times=2)
        assert [one["addresses"] for one in running.known()["nodes"]] == [one["addresses"] for one in before["nodes"]]
        assert httpx.get(f"{running.url(0)}/topics/kept").status_code == 200


@pytest.mark.slow
def test_what_a_killed_up_left_running_is_ended_by_the_next(tmp_path: Path) -> None:
    data = tmp_path / "c"
    with up(data, "--nodes", "1") as running:
        running.wait_said("Ready. ")
        before = pids(running.known())
        running.process.kill()
        running.process.wait(60)
        assert is_ready(running.url(0))
        with up(data, "--nodes", "1") as next_one:
            next_one.wait_said("Ready. ", times=2)
            assert not set(pids(next_one.known())) & set(before)
            assert not any(is_alive(pid) for pid in before)


@pytest.mark.slow
def test_what_died_is_started_again_if_that_was_asked_for(tmp_path: Path) -> None:
    with up(tmp_path / "c", "--nodes", "1", "--restart") as running:
        running.wait_said("Ready. ")
        before = running.pid(0)
        os.kill(before or 0, signal.SIGKILL)
        running.wait_said("node 0  started again")
        assert running.pid(0) not in (None, before)
        wait_until(lambda: is_ready(running.url(0)))
        assert goqueue("cluster", "node", "stop", "0", "--data", str(running.data)).exit_code == 0
        running.wait_said("node 0  stopped")
        assert running.said.count("started again") == 1
