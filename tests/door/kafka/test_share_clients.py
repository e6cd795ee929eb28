"""The stock share consumers, Java's `KafkaShareConsumer` and the C client's: accept, release, reject, renew, the end of
a lock, several consumers, kills. Each is skipped where it cannot be had (see `bench/maven.py` for Java's)."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import httpx
import pytest

from bench.maven import java_program
from bench.node_process import NodeProcess
from goqueue.wire.messages import describe_share_group_offsets as looking
from tests.door.kafka.raw import Line, free_port, new_topic
from tests.door.kafka.share import configure, produce
from tests.long import LONG
from tests.waiting import let_pass, wait_until

PROGRAM = Path(__file__).parent / "ShareWorker.java"
PARTITIONS = 2
GROUP, TOPIC = "g", "t"
ROUNDS = 4 if LONG else 1
LONG_LOCK_MS = "60000"  # so that a busy machine lets none run out
MANY_DELIVERIES = "100"  # so that none is given up: what a kill cut off may have been a delivery

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("test_share_clients")]

Start = Callable[[str], "Worker"]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """A consumer of the node at an address."""
    class_path = java_program(tmp_path_factory.mktemp("java"), PROGRAM)
    if class_path is None:
        pytest.skip("there are no jars of Kafka's clients here")
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", class_path, "ShareWorker"]
    return lambda address: Worker([*command, address, GROUP, TOPIC])


@pytest.fixture(params=["java", "c"])
def start(request: pytest.FixtureRequest) -> Start:
    if request.param == "java":
        found: Start = request.getfixturevalue("java")
        return found
    if not hasattr(confluent_kafka, "ShareConsumer"):
        pytest.skip("the C client has no share consumer")
    command = [sys.executable, "-m", "tests.door.kafka.share_worker"]
    return lambda address: Worker([*command, address, GROUP, TOPIC])


class Worker:
    """One consumer in a process of its own, and what it printed."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.got: list[tuple[int, int, int, str]] = []  # partition, offset, delivery count, value
        self.done: list[tuple[int, int]] = []
        self.said: set[str] = set()  # every first word
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                return  # it was killed while it wrote
            word, *rest = line.rstrip("\n").split(" ", 4)
            self.said.add(word)
            if word == "got":
                self.got.append((int(rest[0]), int(rest[1]), int(rest[2]), rest[3]))
            elif word == "done":
                self.done.append((int(rest[0]), int(rest[1])))

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """It closes its session and leaves, unless it was killed."""
        if self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._end()

    def _end(self) -> None:
        self._process.wait(60)
        self._reading.join(60)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    settings = {"GOQUEUE_GROUPS_HEARTBEAT_MS": "300"}
    flags = ("--kafka", f"127.0.0.1:{free_port()}")
    with NodeProcess(tmp_path / "data", *flags, settings=settings) as running:
        with Line(running.kafka) as line:
            assert line.ask(new_topic(TOPIC, PARTITIONS)).topics[0].error_code == 0
            configure(line, GROUP, share_auto_offset_reset="earliest", share_record_lock_duration_ms="3000")
        yield running


def set_for_group(node: NodeProcess, **values: str) -> None:
    with Line(node.kafka) as line:
        configure(line, GROUP, **values)


def publish(node: NodeProcess, *values: str) -> None:
    with Line(node.kafka) as line:
        for number in range(PARTITIONS):
            produce(line, TOPIC, *(value.encode() for value in values[number::PARTITIONS]), partition=number)


def letters(node: NodeProcess) -> list[str]:
    found = httpx.get(f"{node.url}/topics/{TOPIC}/dlq")
    return sorted(one["value"] for one in found.json()["messages"]) if found.status_code == 200 else []


def starts(node: NodeProcess) -> list[int]:
    """Where the group stands in each partition."""
    asked = looking.DescribeShareGroupOffsetsRequestGroup(GROUP, None)
    with Line(node.kafka) as line:
        (told,) = line.ask(looking.DescribeShareGroupOffsetsRequest([asked])).groups
    return [part.start_offset for topic in told.topics for part in topic.partitions]


def test_consumers_accept_release_and_reject(node: NodeProcess, start: Start) -> None:
    set_for_group(node, share_record_lock_duration_ms=LONG_LOCK_MS)
    plain = [f"plain {number}" for number in range(200)]
    publish(node, *plain, "release me", "reject me")
    workers = [start(node.kafka) for _ in range(2)]
    wait_until(lambda: sum(starts(node)) == 202 and letters(node) == ["reject me", "release me"], lambda: starts(node))
    for one in workers:
        one.stop()
    got = [record for one in workers for record in one.got]
    counts = Counter(value for _, _, _, value in got)
    assert counts == Counter({**dict.fromkeys(plain, 1), "release me": 5, "reject me": 1})
    assert sorted(count for _, _, count, value in got if value == "release me") == [1, 2, 3, 4, 5]
    done = Counter(place for one in workers for place in one.done)
    assert len(done) == 202


def test_a_record_of_a_consumer_that_is_killed_goes_to_another(node: NodeProcess, start: Start) -> None:
    set_for_group(node, share_record_lock_duration_ms=LONG_LOCK_MS)
    first = start(node.kafka)
    publish(node, "hold me", "hold me too")
    wait_until(lambda: first.got, "nothing came")
    first.kill()
    second = start(node.kafka)
    wait_until(lambda: sum(starts(node)) == 2, lambda: (starts(node), second.got))
    second.stop()
    assert {value for _, _, _, value in second.got} == {"hold me", "hold me too"}
    held = first.got[0]
    assert [count for *place, count, _ in second.got if place == list(held[:2])] == [2]


def test_every_record_is_accepted_at_last_though_the_node_is_killed(node: NodeProcess, start: Start) -> None:
    set_for_group(node, share_delivery_count_limit=MANY_DELIVERIES)
    workers = [start(node.kafka) for _ in range(2)]
    values = [f"plain {number}" for number in range(200 * ROUNDS)]
    for round_ in range(ROUNDS):
        publish(node, *values[round_ * 200 : round_ * 200 + 200])
        wait_until(lambda: any(len(one.got) > round_ * 50 for one in workers), "nothing came")  # noqa: B023
        node.kill()
        node.start()
    wait_until(lambda: sum(starts(node)) == len(values), lambda: starts(node))
    for one in workers:
        one.stop()
    assert {value for one in workers for *_, value in one.got} == set(values)
    assert max(Counter(place for one in workers for place in one.done).values()) == 1, "accepted once"
    assert letters(node) == []


def test_a_java_consumer_renews_its_lock(node: NodeProcess, java: Start) -> None:
    set_for_group(node, share_record_lock_duration_ms="6000")
    first = java(node.kafka)
    publish(node, "renew me", "plain")
    wait_until(lambda: any(value == "renew me" for *_, value in first.got), lambda: first.got)
    second = java(node.kafka)
    wait_until(lambda: sum(starts(node)) == 2, lambda: (starts(node), first.got, second.got), 60)
    for one in (first, second):
        one.stop()
    if "norenew" in first.said:
        pytest.skip("the client is older than renewals")
    assert {count for *_, count, value in first.got if value == "renew me"} == {1}
    assert "renew me" not in {value for *_, value in second.got}


def test_every_record_has_one_end_though_consumers_and_the_node_are_killed(node: NodeProcess, start: Start) -> None:
    set_for_group(node, share_delivery_count_limit=MANY_DELIVERIES)
    choose = random.Random(7)
    values = [f"{'reject' if number % 50 == 0 else 'plain'} {number}" for number in range(200 * ROUNDS)]
    everybody: list[Worker] = []
    for round_ in range(ROUNDS):
        workers = [start(node.kafka) for _ in range(2)]
        everybody += workers
        publish(node, *values[round_ * 200 : round_ * 200 + 200])
        seen = sum(len(one.got) for one in everybody)
        wait_until(lambda: sum(len(one.got) for one in everybody) > seen + 20, "nothing came")  # noqa: B023
        let_pass(choose.random() * 0.3)
        if round_ % 2:
            node.kill()
            node.start()
        choose.choice(workers).kill()
    rejected = sorted(value for value in values if value.startswith("reject"))

    def all_ended() -> bool:
        return sum(starts(node)) == len(values) and letters(node) == rejected

    wait_until(all_ended, lambda: (starts(node), letters(node)), 90)
    for one in everybody:
        one.stop()
    got = [record for one in everybody for record in one.got]
    assert {value for *_, value in got} == set(values)
    deliveries = Counter((partition, offset, count) for partition, offset, count, _ in got)
    assert max(deliveries.values()) == 1, "two had a record at once"
    assert max(Counter(place for one in everybody for place in one.done).values()) == 1, "answered for once"
