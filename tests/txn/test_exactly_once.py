"""Read, transform and write on in transactions, while node and clients are killed: each input is there exactly once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bench.node_process import NodeProcess
from goqueue.wire.messages.describe_groups import DescribeGroupsRequest
from goqueue.wire.messages.describe_transactions import DescribeTransactionsRequest
from goqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from goqueue.wire.messages.list_transactions import ListTransactionsRequest
from tests.door.kafka.raw import Line, free_port, new_topic, unique
from tests.long import LONG
from tests.txn.checker import check
from tests.txn.history import FINAL, History, Outcome
from tests.txn.worker import TIMEOUT_MS, Job
from tests.waiting import has_come, let_pass

KILLS = 54 if LONG else 6
PARTITIONS = 3
WORKERS = 3
RATE = 400  # numbers a second
LATEST = -1


class Feed(threading.Thread):
    """Writes numbers into the source, each once, until told to stop."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
                "reconnect.backoff.max.ms": 300,
            }
        )
        self._topic = topic
        self.stopped = threading.Event()
        self.count = 0
        self.errors: list[KafkaError] = []

    def run(self) -> None:
        while not self.stopped.wait(0.02):
            for _ in range(RATE // 50):
                self._producer.produce(
                    self._topic, str(self.count), partition=self.count % PARTITIONS, on_delivery=self._told
                )
                self.count += 1
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    def _told(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.errors.append(error)


class Watch(threading.Thread):
    """A reader of committed data that goes on all the time."""

    def __init__(self, address: str, topic: str, history: History) -> None:
        super().__init__()
        self._consumer = committed_reader(address, topic)
        self._history = history
        self.stopped = threading.Event()
        self.numbers: set[int] = set()

    def run(self) -> None:
        while not self.stopped.is_set():
            poll(self._consumer, self._history, "watching", self.numbers)
        self._consumer.close()


def committed_reader(address: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": unique("watch"),
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "log_level": 0,
            "reconnect.backoff.max.ms": 300,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    return consumer


def poll(consumer: Consumer, history: History, reader: str, numbers: set[int]) -> int:
    found = [one for one in consumer.consume(500, 0.2) if one.error() is None]
    values = [(one.value() or b"").decode() for one in found]
    history.polled(
        reader, [(one.partition(), one.offset() or 0, value) for one, value in zip(found, values, strict=True)]
    )
    numbers.update(int(value.partition(":")[0]) for value in values)
    return len(found)


class Team:
    """The workers. A worker that died is replaced by one of the same name."""

    def __init__(self, kind: str, job: Job, directory: Path) -> None:
        self._kind, self._job, self._directory = kind, job, directory
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: list[subprocess.Popen[bytes]] = []
        self.group = job.group
        self.replaced = 0

    def start(self, number: int) -> None:
        name = f"{self._job.group}-{number}"
        told = msgspec.structs.replace(
            self._job, name=name, number=number, journal=str(self._directory / f"{name}.journal")
        )
        command = [sys.executable, "-m", "tests.txn.worker", self._kind, msgspec.json.encode(told).decode()]
        with (self._directory / "workers.stderr").open("a") as log:
            self._running[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        self._end(self._running[number])
        self.start(number)

    def pause(self, number: int) -> None:
        """The worker stands still and is replaced; later it wakes up and does not know."""
        paused = self._running[number]
        paused.send_signal(signal.SIGSTOP)
        self._paused.append(paused)
        self.start(number)

    def wake_paused(self) -> None:
        for one in self._paused:
            one.send_signal(signal.SIGCONT)

    def replace_dead(self) -> None:
        for number, one in self._running.items():
            if one.poll() is not None and not Path(self._job.stop).exists():
                self.replaced += 1
                self.start(number)

    def _end(self, one: subprocess.Popen[bytes]) -> None:
        if one.poll() is None:
            one.kill()
        one.wait(10)

    def finish(self) -> list[int | None]:
        """How they ended after they were told to stop; whoever does not is killed."""
        Path(self._job.stop).touch()
        has_come(lambda: all(one.poll() is not None for one in self._running.values()), 60)
        codes = [one.poll() for one in self._running.values()]
        for one in (*self._running.values(), *self._paused):
            self._end(one)
        return codes

    def tell(self, history: History) -> list[str]:
        """Puts the journals into the history; answers with the workers' notes."""
        notes: list[str] = []
        for path in self._directory.glob("*.journal"):
            for line in path.read_text().splitlines():
                what, _, rest = line.partition(" ")
                if what == "W":
                    txn, partition, value = rest.split(" ")
                    history.wrote(txn, partition, value)
                elif what == "N":
                    notes.append(rest)
                else:
                    history.ended(rest, Outcome.COMMITTED if what == "C" else Outcome.ABORTED)
        return notes


def ends(address: str, topic: str, isolation: int) -> list[int]:
    parts = [ListOffsetsPartition(number, -1, LATEST) for number in range(PARTITIONS)]
    with Line(address) as line:
        answer = line.ask(ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, parts)]))
    return [one.offset for one in answer.topics[0].partitions]


def wreak_havoc(node: NodeProcess, team: Team, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    kinds = ["node", "client", "pause", "node", "client", "node"]
    kinds += chance.choices(("node", "client", "pause"), (9, 9, 2), k=KILLS - len(kinds))
    chance.shuffle(kinds)
    for kind in kinds:
        let_pass(chance.uniform(0.3, 1.4))
        if kind == "node":
            node.kill()
            let_pass(chance.uniform(0, 0.3))
            node.start()
        elif kind == "client":
            team.kill(chance.randrange(WORKERS))
        else:
            team.pause(chance.randrange(WORKERS))
        if chance.random() < 0.4:
            team.wake_paused()
        team.replace_dead()
    team.wake_paused()
    return Counter(kinds)


@pytest.mark.slow
@pytest.mark.timeout(900 if LONG else 120)
@pytest.mark.parametrize(
    ("kind", "fsync"), [("confluent", "interval"), ("aiokafka", "interval"), ("confluent", "always")]
)
def test_each_input_is_there_exactly_once(tmp_path: Path, kind: str, fsync: str) -> None:
    if fsync == "always" and not LONG:
        pytest.skip("only in the long form")
    began = time.monotonic()
    seed = random.randrange(1 << 30)
    address = ("--kafka", f"127.0.0.1:{free_port()}", "--fsync", fsync)
    node = NodeProcess(tmp_path / "data", *address).start()
    source, target = unique("in"), unique("out")
    with Line(node.kafka) as line:
        for name in (source, target):
            assert line.ask(new_topic(name, PARTITIONS)).topics[0].error_code == 0
    history = History()
    stop = str(tmp_path / "stop")
    team = Team(kind, Job(node.kafka, source, target, PARTITIONS, unique("g"), "", 0, "", stop), tmp_path)
    feed, watch = Feed(node.kafka, source), Watch(node.kafka, target, history)
    feed.start()
    watch.start()
    for number in range(WORKERS):
        team.start(number)
    try:
        assert has_come(lambda: len(watch.numbers) > 100), "the work is under way"
        havoc = wreak_havoc(node, team, seed)
        feed.stopped.set()
        feed.join()

        def all_there() -> bool:
            team.replace_dead()
            return len(watch.numbers) >= feed.count

        drained = has_come(all_there)
        if not drained:
            print(described(node, team.group))
        codes = team.finish()
        stable = has_come(lambda: ends(node.kafka, target, 1) == ends(node.kafka, target, 0), TIMEOUT_MS / 1000 + 60)
        read_at_last(node.kafka, target, history)
    finally:
        feed.stopped.set()
        watch.stopped.set()
        team.finish()
        watch.join()
        node.kill()
    notes = team.tell(history)
    seen = Counter(int(one.value.partition(":")[0]) for one in history.final)
    missing = [number for number in range(feed.count) if number not in seen]
    twice = {number: count for number, count in seen.items() if count > 1}
    print(
        f"\n{kind}, fsync={fsync}, seed {seed}: {feed.count} inputs, {len(history.final)} outputs, "
        f"killed {dict(havoc)}, {team.replaced} workers gave up and were replaced; transactions: "
        f"{', '.join(f'{history.count(one)} {one}' for one in Outcome)}; {time.monotonic() - began:.1f} s"
    )
    print("\n".join(notes[-40:]))
    assert feed.errors == []
    assert (missing[:20], twice) == ([], {}), f"{len(missing)} missing"
    assert drained and stable
    assert list(map(str, check(history)[:20])) == []
    assert codes == [0] * WORKERS


def described(node: NodeProcess, group: str) -> str:
    """Why nothing goes on: what the node knows of the group and of transactions."""
    with Line(node.kafka) as line:
        names = [one.transactional_id for one in line.ask(ListTransactionsRequest()).transaction_states]
        transactions = line.ask(DescribeTransactionsRequest(names)).transaction_states
        members = line.ask(DescribeGroupsRequest([group])).groups
    return "\n".join(map(str, (*transactions, *members)))


def read_at_last(address: str, topic: str, history: History) -> None:
    """Everything up to the last stable offset, and then nothing more comes."""
    consumer = committed_reader(address, topic)
    numbers: set[int] = set()
    idle = 0
    while idle < 5:
        idle = 0 if poll(consumer, history, FINAL, numbers) else idle + 1
    consumer.close()
