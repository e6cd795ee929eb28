"""Staged sets as executors write them: over Kafka's door, committed over REST's, while the node is killed."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from bench.node_process import NodeProcess
from goqueue.client import Client, ConnectionFailed, GoQueueClientError, StagedEnd, StagedWriterId
from goqueue.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from goqueue.wire.messages.end_txn import EndTxnRequest
from goqueue.wire.messages.init_producer_id import InitProducerIdRequest
from goqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.door.kafka.raw import Line, free_port, produce_to, unique
from tests.long import LONG
from tests.txn.watching import assert_sound
from tests.txn.world import transactional_batch
from tests.waiting import let_pass

pytestmark = pytest.mark.usefixtures("watched")

T = TypeVar("T")
PARTITIONS = 3
FENCED, OLD_FENCED, INVALID_TXN_STATE, NO_MAPPING = 90, 47, 48, 49
PATIENCE_S = 30
KILLS = 60 if LONG else 4  # one at each of four moments
LATEST = -1


class Executor:
    """Writes rows into one staged transaction, one partition after the other."""

    def __init__(self, kafka: str, who: StagedWriterId) -> None:
        self._kafka, self.who = kafka, who
        self._sequences: Counter[int] = Counter()

    def add(self, topic: str, *partitions: int) -> int:
        asked = AddPartitionsToTxnTransaction(
            self.who.transactional_id,
            self.who.producer_id,
            self.who.epoch,
            topics=[AddPartitionsToTxnTopic(topic, list(partitions))],
        )
        with Line(self._kafka) as line:
            told = line.ask(AddPartitionsToTxnRequest([asked])).results_by_transaction[0]
        return int(told.topic_results[0].results_by_partition[0].partition_error_code)

    def produce(self, topic: str, partition: int, *values: str) -> int:
        first = self._sequences[partition]
        batch = transactional_batch(values, self.who.producer_id, self.who.epoch, first)
        with Line(self._kafka) as line:
            told = line.ask(produce_to(topic, partition, batch), 9).responses[0].partition_responses[0]
        if told.error_code == 0:
            self._sequences[partition] += len(values)
        return int(told.error_code)

    def write(self, topic: str, partition: int, *values: str) -> None:
        assert self.add(topic, partition) == 0
        assert self.produce(topic, partition, *values) == 0

    @property
    def done(self) -> StagedWriterId:
        who = self.who
        return StagedWriterId(who.transactional_id, who.producer_id, who.epoch, self._sequences.total())


@pytest.fixture
def client(shared_node: NodeProcess) -> Iterator[Client]:
    with Client(shared_node.url) as made:
        yield made


def values_of(client: Client, topic: str) -> list[str]:
    """All that a reader of committed data gets."""
    found: list[str] = []
    for partition in range(PARTITIONS):
        offset: int | None = 0
        while (page := client.read(topic, partition=partition, offset=offset, limit=1_000)).messages:
            found += [one.value.decode() for one in page.messages if one.value is not None]
            offset = page.next_offset
    return found


def test_executors_write_and_the_driver_commits(client: Client, kafka: str, topic: str) -> None:
    owner = unique("query")
    executors = [Executor(kafka, client.stage(owner, 0, number)) for number in range(3)]
    for number, one in enumerate(executors):
        for partition in range(PARTITIONS):
            one.write(topic, partition, f"{number}.{partition}", f"{number}.{partition}'")
    assert values_of(client, topic) == []
    assert client.commit_staged(owner, 0, [one.done for one in executors]) == StagedEnd("committed", 0)
    assert sorted(values_of(client, topic)) == sorted(
        f"{number}.{partition}{mark}" for number in range(3) for partition in range(PARTITIONS) for mark in ("", "'")
    )
    assert client.commit_staged(owner, 0, [one.done for one in executors]) == StagedEnd("already", 0)


def test_what_a_staged_writer_may_not_do_at_this_door(client: Client, kafka: str, topic: str) -> None:
    owner = unique("query")
    one = Executor(kafka, client.stage(owner, 0, "w"))
    one.write(topic, 0, "v")
    key = (one.who.transactional_id, one.who.producer_id, one.who.epoch)
    with Line(kafka) as line:
        assert line.ask(EndTxnRequest(*key, True)).error_code == INVALID_TXN_STATE
        assert line.ask(InitProducerIdRequest(key[0], 60_000), 4).error_code == INVALID_TXN_STATE
    heir = Executor(kafka, client.stage(owner, 0, "w"))
    assert one.add(topic, 1) == FENCED and one.produce(topic, 0, "zombie") == OLD_FENCED
    heir.write(topic, 0, "heir")
    client.commit_staged(owner, 0, [heir.done])
    assert heir.add(topic, 0) == FENCED and heir.produce(topic, 0, "late") == OLD_FENCED
    assert values_of(client, topic) == ["heir"]
    with Line(kafka) as line:
        given_up = Executor(kafka, client.stage(owner, 1, "w"))
        assert line.ask(EndTxnRequest(*_key(given_up.who), False)).error_code == 0, "a writer may give up"
    with pytest.raises(GoQueueClientError) as why:
        client.commit_staged(owner, 1, [given_up.who])
    assert (why.value.code, why.value.status) == ("staged-conflict", 409)
    assert why.value.extra["writer"] == given_up.who.transactional_id


def test_a_count_that_is_not_there_is_refused(client: Client, kafka: str, topic: str) -> None:
    owner = unique("query")
    one = Executor(kafka, client.stage(owner, 0, "w"))
    one.write(topic, 0, "a", "b")
    more = StagedWriterId(*_key(one.who), messages=3)
    with pytest.raises(GoQueueClientError, match="stored 3 messages, and 2 are there"):
        client.commit_staged(owner, 0, [more])
    assert client.commit_staged(owner, 0, [one.done]).outcome == "committed"


def _key(who: StagedWriterId) -> tuple[str, int, int]:
    return who.transactional_id, who.producer_id, who.epoch


# --- kill -9 ---------------------------------------------------------------------------------------------------


def again(ask: Callable[[], T]) -> T:
    """Asks until there is an answer: the node is down for a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except (ConnectionFailed, ConnectionError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            let_pass(0.02)


def ends(kafka: str, topic: str, isolation: int) -> list[int]:
    parts = [ListOffsetsPartition(number, -1, LATEST) for number in range(PARTITIONS)]
    with Line(kafka) as line:
        told = line.ask(ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, parts)])).topics[0]
    return [one.offset for one in told.partitions]


class Query:
    """A driver and its two executors; it notes every row that it meant to be seen."""

    def __init__(self, node: NodeProcess, client: Client, topic: str) -> None:
        self._node, self._client, self._topic = node, client, topic
        self.owner = unique("query")
        self.rows: list[str] = []

    def stage(self, batch: int, run: int) -> list[Executor]:
        """With an attempt beside them that loses."""
        loser = Executor(self._node.kafka, again(lambda: self._client.stage(self.owner, batch, 0, attempt=1)))
        loser.write(self._topic, batch % PARTITIONS, f"{batch}.loser")
        return [
            Executor(self._node.kafka, again(lambda number=number: self._client.stage(self.owner, batch, number)))  # type: ignore[misc]
            for number in range(2)
        ]

    def write(self, batch: int, run: int, executors: list[Executor]) -> list[str]:
        rows = []
        for number, one in enumerate(executors):
            for partition in range(PARTITIONS):
                rows.append(f"{batch}.{run}.{number}.{partition}")
                one.write(self._topic, partition, rows[-1])
        return rows

    def commit(self, batch: int, executors: list[Executor]) -> StagedEnd:
        return again(lambda: self._client.commit_staged(self.owner, batch, [one.done for one in executors]))


def kill_after(node: NodeProcess, seconds: float) -> threading.Thread:
    def kill() -> None:
        let_pass(seconds)
        node.kill()
        node.start()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.parametrize("fsync", ["interval", "always"])
def test_a_node_that_is_killed_between_stage_commit_and_answer(tmp_path: Path, fsync: str) -> None:
    """Every batch is there once and whole, and every number with it."""
    ports = ("--kafka", f"127.0.0.1:{free_port()}", "--rest", f"127.0.0.1:{free_port()}", "--fsync", fsync)
    chance, outcomes, topic = random.Random(fsync), Counter[str](), unique("t")
    with NodeProcess(tmp_path / "data", *ports) as node, Client(node.url, timeout=PATIENCE_S) as client:
        client.create_topic(topic, PARTITIONS)
        query = Query(node, client, topic)
        for batch in range(KILLS):
            moment = batch % 4
            executors = query.stage(batch, 0)
            if moment == 0:
                node.kill()
                node.start()
            rows = query.write(batch, 0, executors)
            if moment == 1:
                node.kill()
                node.start()
            killer = kill_after(node, chance.random() * 0.005) if moment >= 2 else None
            outcome = query.commit(batch, executors).outcome
            if killer is not None:
                killer.join()
            outcomes[outcome] += 1
            if moment == 3:  # the driver died too before it heard: it runs the batch again
                second = query.stage(batch, 1)
                query.write(batch, 1, second)
                assert query.commit(batch, second).outcome == "already"
            query.rows += rows
            assert client.staged(query.owner).last_batch == batch
        found = Counter(values_of(client, topic))
        assert set(found.values()) == {1} and found.keys() == set(query.rows)
        assert client.staged(query.owner).open == []
        assert ends(node.kafka, topic, 1) == ends(node.kafka, topic, 0), "readers of committed data get to the end"
        assert_sound(node.url, [topic])
    print(f"\n{fsync}: {dict(outcomes)} over {KILLS} batches")
