"""Rebalances: who gets what, how soon, and that nobody stops reading what it keeps."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.node_process import NodeProcess
from goqueue.wire.messages.describe_groups import DescribeGroupsRequest
from goqueue.wire.messages.heartbeat import HeartbeatRequest
from tests.door.kafka import raw
from tests.door.kafka.closing import close
from tests.door.kafka.raw import AsyncLine, Line, unique
from tests.kafka_messages import place_of
from tests.waiting import stretched, wait_until, wait_until_async

WAIT_S = 30
MEMBERS = 100
PARTITIONS = 1000
SETTLED_S_MAX = 1.0
NODE_GAP_S_MAX = 0.5
# The C client pauses what it keeps while its callbacks run. If its fetching thread looks just then, it sends no fetch
# until it wakes by itself, a second later at most; the node has no part in that.
CLIENT_GAP_S_MAX = 1.5
MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS = 79, 27


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A node with one topic of a thousand partitions: its address and the topic."""
    with NodeProcess(tmp_path_factory.mktemp("wide") / "data") as node, Line(node.kafka) as line:
        name = unique("wide")
        assert line.ask(raw.new_topic(name, PARTITIONS)).topics[0].error_code == 0
        yield node.kafka, name


# --- the classic protocol by hand ----------------------------------------------------------------------------


def ranges(members: list[str]) -> dict[str, bytes]:
    """What the leader says: a share of the partitions for each member, as text."""
    share = PARTITIONS // len(members)
    return {name: f"{at * share}-{(at + 1) * share}".encode() for at, name in enumerate(sorted(members))}


class ClassicMember:
    """Joins and syncs, over and over, until it has an assignment."""

    def __init__(self, line: AsyncLine, group: str) -> None:
        self._line, self._group = line, group
        self.member_id, self.generation, self.assignment = "", 0, b""

    async def wait_durable(self) -> None:
        while True:
            joined = await self._line.ask(raw.join(self._group, self.member_id))
            self.member_id = joined.member_id
            if joined.error_code == MEMBER_ID_REQUIRED:
                continue
            assert joined.error_code == 0, joined
            leads = joined.leader == self.member_id
            given = ranges([one.member_id for one in joined.members]) if leads else {}
            synced = await self._line.ask(raw.sync(self._group, joined.generation_id, self.member_id, given))
            if synced.error_code == REBALANCE_IN_PROGRESS:
                continue
            assert synced.error_code == 0, synced
            self.generation, self.assignment = joined.generation_id, bytes(synced.assignment)
            return

    async def live(self) -> None:
        """Joins, then sends heartbeats and goes back into every rebalance, without waiting for any other member."""
        await self.wait_durable()
        while True:
            beaten = await self._line.ask(HeartbeatRequest(self._group, self.generation, self.member_id))
            if beaten.error_code:
                await self.wait_durable()
            await asyncio.sleep(0.01)


def are_settled(members: list[ClassicMember]) -> bool:
    shares = {one.assignment for one in members}
    return len({one.generation for one in members}) == 1 and len(shares) == len(members) and b"" not in shares


async def settle_classic(kafka: str, group: str) -> tuple[float, float]:
    """Seconds until a new group of all members is settled, and until it is again after one more came."""
    lines = [await AsyncLine.open(kafka) for _ in range(MEMBERS + 1)]
    members = [ClassicMember(line, group) for line in lines[:-1]]
    try:
        async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as lives:
            running = [lives.create_task(one.live()) for one in members]
            first = await seconds_to_settle(members)
            members.append(ClassicMember(lines[-1], group))
            running.append(lives.create_task(members[-1].live()))
            second = await seconds_to_settle(members)
            for one in running:
                one.cancel()
    finally:
        for line in lines:
            await line.close()
    return first, second


async def seconds_to_settle(members: list[ClassicMember]) -> float:
    began = time.perf_counter()
    await wait_until_async(lambda: are_settled(members))
    return time.perf_counter() - began


def test_a_hundred_classic_members_settle_on_a_thousand_partitions(wide: tuple[str, str]) -> None:
    group = unique("g")
    first, second = asyncio.run(settle_classic(wide[0], group))
    print(f"\nclassic, {MEMBERS} members, {PARTITIONS} partitions: new group {first:.3f} s, one more {second:.3f} s")
    assert max(first, second) < stretched(SETTLED_S_MAX)
    with Line(wide[0]) as line:
        (described,) = line.ask(DescribeGroupsRequest([group])).groups
        assert described.group_state == "Stable" and len(described.members) == MEMBERS + 1


# --- the server-side protocol by hand ------------------------------------------------------------------------


class ServedMember:
    """Sends heartbeats and does as it is told, at once."""

    def __init__(self, line: AsyncLine, group: str, name: str, topic: str) -> None:
        self._line, self._group, self._name, self._topic = line, group, name, topic
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    async def beat(self) -> None:
        topics = [self._topic] if self.epoch == 0 else None
        answer = await self._line.ask(raw.beat(self._group, self._name, self.epoch, topics, self.owned))
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            parts = answer.assignment.topic_partitions
            self.owned = {bytes(one.topic_id): list(one.partitions) for one in parts}

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))


def have_everything(members: list[ServedMember]) -> bool:
    total = sum(one.count for one in members)
    distinct = {number for one in members for numbers in one.owned.values() for number in numbers}
    counts = [one.count for one in members]
    same = len({one.epoch for one in members}) == 1
    return same and total == len(distinct) == PARTITIONS and max(counts) - min(counts) <= 1


async def settle_served(kafka: str, group: str, topic: str) -> tuple[float, float, int]:
    """The same for members that the node assigns to; and how many rounds of heartbeats a new group took."""
    lines = [await AsyncLine.open(kafka) for _ in range(MEMBERS + 1)]
    members = [ServedMember(line, group, f"m{number}", topic) for number, line in enumerate(lines)]
    newcomer = members.pop()

    async def wait_durable() -> tuple[float, int]:
        began = time.perf_counter()
        for rounds in itertools.count(1):
            await asyncio.gather(*(one.beat() for one in members))
            if have_everything(members):
                return time.perf_counter() - began, rounds
        raise AssertionError

    first, rounds = await wait_durable()
    members.append(newcomer)
    second, _ = await wait_durable()
    for line in lines:
        await line.close()
    return first, second, rounds


def test_a_hundred_members_of_the_server_side_protocol_settle_on_a_thousand_partitions(wide: tuple[str, str]) -> None:
    kafka, topic = wide
    first, second, rounds = asyncio.run(asyncio.wait_for(settle_served(kafka, unique("g"), topic), 60))
    print(
        f"\nserver-side, {MEMBERS} members, {PARTITIONS} partitions: "
        f"new group {first:.3f} s in {rounds} rounds, one more {second:.3f} s"
    )
    assert max(first, second) < stretched(SETTLED_S_MAX)


# --- reading on ----------------------------------------------------------------------------------------------


class Reader:
    """A consumer in a thread that notes when it read what."""

    def __init__(self, kafka: str, topic: str, group: str, settings: dict[str, Any]) -> None:
        self.seen: list[tuple[float, int]] = []  # (when, partition)
        self.revoked: list[tuple[float, int]] = []
        self._consumer = Consumer(
            {"bootstrap.servers": kafka, "group.id": group, "auto.offset.reset": "earliest", **settings}
        )
        self._consumer.subscribe([topic], on_revoke=self._lost, on_lost=self._lost)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _lost(self, _: Consumer, parts: list[TopicPartition]) -> None:
        self.revoked += [(time.monotonic(), one.partition) for one in parts]

    def _run(self) -> None:
        while not self._stopped.is_set():
            for message in self._consumer.consume(100, 0.05):
                if message.error() is None:
                    self.seen.append((time.monotonic(), place_of(message)[0]))
        close(self._consumer)

    def partitions(self, since: float) -> set[int]:
        return {partition for when, partition in self.seen if when >= since}

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def write_until(kafka: str, topic: str, partitions: int, stopped: threading.Event) -> None:
    """A message to each partition, every 10 ms."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    while not stopped.wait(0.01):
        for number in range(partitions):
            producer.produce(topic, b"v", partition=number)
        producer.poll(0)
    producer.flush(WAIT_S)


def largest_gap(reader: Reader, partition: int, since: float, until: float) -> float:
    times = [since, *(when for when, one in list(reader.seen) if one == partition and since <= when <= until), until]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 500},
        {"group.protocol": "consumer"},
    ],
    ids=["cooperative-sticky", "server-side"],
)
def test_nobody_stops_reading_what_it_keeps_while_a_third_joins(tmp_path: Path, settings: dict[str, Any]) -> None:
    served = {"GOQUEUE_GROUPS_HEARTBEAT_MS": "500"}
    with NodeProcess(tmp_path / "data", settings=served) as node:
        topic, group, partitions = unique("t"), unique("g"), 6
        with Line(node.kafka) as line:
            line.ask(raw.new_topic(topic, partitions))
        stopped = threading.Event()
        writing = threading.Thread(target=write_until, args=(node.kafka, topic, partitions, stopped))
        writing.start()
        readers = [Reader(node.kafka, topic, group, settings) for _ in range(2)]
        bystander = Reader(node.kafka, topic, unique("g"), settings)
        try:
            wait_until(lambda: all(len(one.partitions(time.monotonic() - 0.5)) == 3 for one in readers))
            wait_until(lambda: len(bystander.partitions(time.monotonic() - 0.5)) == partitions)
            began = time.monotonic()
            before = [one.partitions(began - 0.5) for one in readers]
            readers.append(Reader(node.kafka, topic, group, settings))
            wait_until(lambda: all(len(one.partitions(time.monotonic() - 0.5)) == 2 for one in readers))
            ended = time.monotonic()
        finally:
            stopped.set()
            writing.join()
            for one in (*readers, bystander):
                one.stop()
        gaps = []
        for reader, had in zip(readers, before, strict=False):
            kept = had & reader.partitions(ended - 0.5)
            assert len(kept) == 2, "each gives one away and keeps two"
            lost = {partition for when, partition in reader.revoked if began < when < ended}
            assert not kept & lost, "what is kept is never revoked"
            gaps += [largest_gap(reader, partition, began, ended) for partition in kept]
        served_gap = max(largest_gap(bystander, number, began, ended) for number in range(partitions))
        print(
            f"\n{settings}: settled in {ended - began - 0.5:.2f} s, largest gap {max(gaps) * 1000:.0f} ms "
            f"for a member, {served_gap * 1000:.0f} ms for a reader of another group"
        )
        assert max(gaps) < stretched(CLIENT_GAP_S_MAX)
        assert served_gap < stretched(NODE_GAP_S_MAX), "the node serves every partition throughout"
