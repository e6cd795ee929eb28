"""`goqueue backup` and `goqueue restore` of several nodes that run: a cluster, and the processes of one machine."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.cluster_process import ClusterProcess
from tests.cli.running import goqueue
from tests.cli.test_backup import Worker, back_up, publish, values_of
from tests.etcd import etcd_program
from tests.long import only_long
from tests.processes.machine import Machine
from tests.waiting import wait_until

TOPICS = ("debits", "credits")
PAYERS = 4  # the more transactions are under way, the surer a moment that is none shows


class Payments:
    """Transactions that write the same value to two topics, and single messages, until told to stop."""

    def __init__(self, url: str, servers: str) -> None:
        self.committed: list[str] = []
        self.published: list[str] = []
        self._url, self._servers = url, servers
        self._is_over = threading.Event()
        payers = [threading.Thread(target=self._pay, args=(number,)) for number in range(PAYERS)]
        self._threads = [*payers, threading.Thread(target=self._publish)]
        for thread in self._threads:
            thread.start()

    def _pay(self, payer: int) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "transactional.id": f"payer-{payer}", "linger.ms": 0})
        producer.init_transactions(60)
        for number in count():
            if self._is_over.is_set():
                return
            value = str(payer + PAYERS * number)
            producer.begin_transaction()
            for topic in TOPICS:
                producer.produce(topic, value, key=value)
            producer.commit_transaction(60)
            self.committed.append(value)

    def _publish(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            while not self._is_over.is_set():
                value = f"job {len(self.published)}"
                publish(client, "jobs", [value])
                self.published.append(value)

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(120)


def prepare(url: str) -> set[str]:
    """What a group has done."""
    with httpx.Client(base_url=url, timeout=60) as client:
        for topic in ("jobs", *TOPICS):
            small = {"segment.bytes": 65536}
            client.post("/topics", json={"name": topic, "num_partitions": 6, "config": small}).raise_for_status()
        for number in range(20):
            publish(client, "jobs", [f"early {number} {one}" + "." * 300 for one in range(100)])
        worker = Worker(client, "workers", "w")
        taken: list[str] = []

        def took() -> bool:
            messages = worker.take(100, wait="1s")
            if messages:
                worker.ack(messages)
            taken.extend(message["key"] for message in messages)
            return len(taken) >= 500

        wait_until(took)
        return set(taken)


def back_up_under_load(url: str, servers: str, target: Path) -> tuple[set[str], set[str]]:
    """What was acknowledged before the second of two backups began: committed, and published."""
    load = Payments(url, servers)
    try:
        wait_until(lambda: len(load.committed) >= 100 and len(load.published) >= 20)
        first = back_up(target, url)
        wait_until(lambda: len(load.committed) >= 200 and len(load.published) >= 60)
        committed, published = set(load.committed), set(load.published)
        second = back_up(target, url)
        assert second["copied_bytes"] < first["copied_bytes"], "the early messages are not copied again"
    finally:
        load.stop()
    done = goqueue("backup", str(target), "--verify")
    assert done.exit_code == 0, done.output
    return committed, published


def check(url: str, servers: str, taken: set[str], committed: set[str], published: set[str]) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        values = values_of(client, "jobs")
        assert len(values) == len(set(values)) and published <= set(values)
        publish(client, "jobs", ["after"])
        assert "after" in values_of(client, "jobs")
        worker = Worker(client, "workers", "w")
        again = wait_until(lambda: worker.take(10, wait="1s"))
        assert not {message["key"] for message in again} & taken, "what was done is not done again"
    debits, credited = (read_committed(servers, topic) for topic in TOPICS)
    assert debits == credited, "a transaction is there as a whole or not at all"
    assert committed <= set(debits) and len(debits) == len(set(debits))
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "payer-0"})
    producer.init_transactions(60)


def read_committed(servers: str, topic: str) -> list[str]:
    """All of a topic, by number."""
    settings = {"bootstrap.servers": servers, "group.id": "check", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(6)])
    found: list[str] = []
    ended: set[int] = set()
    while len(ended) < 6:
        message = consumer.poll(60)
        assert message is not None, f"{topic}: {len(found)} messages, ends of {ended}"
        error, value = message.error(), message.value()
        if error is None and value is not None:
            found.append(value.decode())
        elif error is not None and error.name() == "_PARTITION_EOF":
            ended.add(message.partition() or 0)
        else:
            raise KafkaException(error)
    consumer.close()
    return sorted(found, key=int)


class Restored(ClusterProcess):
    """Nodes on directories that were restored, and a new etcd. The last machine is lost: its node begins empty."""

    def __init__(self, root: Path, source: Path) -> None:
        super().__init__(root)
        self._source = source
        self._new = root

    def start(self, *numbers: int) -> None:
        for number in numbers[:-1]:
            place = {
                "GOQUEUE_NODE_ID": str(number),
                "GOQUEUE_CLUSTER_STORE": self.store,
                "GOQUEUE_DATA_DIR": str(self._new / f"node-{number}"),
            }
            done = goqueue("restore", str(self._source), env=place)
            assert done.exit_code == 0, done.output
        super().start(*numbers)


@pytest.mark.timeout(400)
def test_a_cluster_that_runs_comes_back_as_it_was_at_one_moment(tmp_path: Path) -> None:
    etcd_program()
    with ClusterProcess(tmp_path / "old") as cluster:
        taken = prepare(cluster.nodes[0].url)
        before = back_up_under_load(cluster.nodes[1].url, cluster.bootstrap, tmp_path / "copies")
        refuses_without_a_node(cluster, tmp_path / "copies")
    plain = goqueue("restore", str(tmp_path / "copies"), "--data", str(tmp_path / "alone"))
    assert plain.exit_code == 2 and "--config" in plain.output
    with Restored(tmp_path / "new", tmp_path / "copies") as cluster:
        check(cluster.nodes[2].url, cluster.bootstrap, taken, *before)


def refuses_without_a_node(cluster: ClusterProcess, target: Path) -> None:
    cluster.kill(2)
    wait_until(lambda: len(cluster.state(0)["nodes"]) < 3 or cluster.state(0)["status"] != "ok")

    def is_refused() -> bool:
        done = goqueue("backup", str(target), server=cluster.nodes[0].url)
        return done.exit_code == 1 and "not there: 2" in done.output

    wait_until(is_refused)


@pytest.mark.timeout(400)
def test_the_processes_of_a_machine_come_back_as_they_were_at_one_moment(tmp_path: Path) -> None:
    with Machine(tmp_path / "old", 2) as machine:
        machine.wait_whole(2)
        taken = prepare(machine.url)
        before = back_up_under_load(machine.url, machine.kafka, tmp_path / "copies")
    done = goqueue("restore", str(tmp_path / "copies"), "--data", str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    with Machine(tmp_path / "new", 2) as machine:
        machine.wait_whole(2)
        check(machine.url, machine.kafka, taken, *before)


@only_long
@pytest.mark.timeout(400)
def test_the_processes_of_a_machine_that_is_stopped_are_backed_up_from_their_directory(tmp_path: Path) -> None:
    with Machine(tmp_path / "old", 2) as machine:
        machine.wait_whole(2)
        prepare(machine.url)
        values = all_of(machine.url)
    done = goqueue("backup", str(tmp_path / "copies"), "--data", str(tmp_path / "old"))
    assert done.exit_code == 0, done.output
    done = goqueue("restore", str(tmp_path / "copies"), "--data", str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    with Machine(tmp_path / "new", 2) as machine:
        machine.wait_whole(2)
        assert all_of(machine.url) == values


def all_of(url: str) -> set[str]:
    with httpx.Client(base_url=url, timeout=60) as client:
        return set(values_of(client, "jobs"))
