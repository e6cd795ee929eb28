"""Transactions over the partitions, groups, queues and schedules of three nodes: all of it happens, or nothing, whoever
dies and whoever leads."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from goqueue.base.commands import Acks, Fetch, FetchFrom, InputMessage, Isolation, PublishBatch, PublishMessages
from goqueue.base.errors import FencedEpoch, NotLoaded, PeerLost
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.core.txn.effects import WriteMarker
from goqueue.core.txn.errors import InvalidProducerMapping, InvalidTxnState
from goqueue.core.txn.questions import MayWrite
from goqueue.core.txn.records import TxnAnswer, TxnStage
from goqueue.drive.partition_producers import PartitionProducers
from goqueue.drive.shard_roles import FETCH
from goqueue.format.batch import read_header, split, strides
from goqueue.format.records import decode
from goqueue.log.segment import Segment
from goqueue.service.txn_partitions import TransactionPartitions
from goqueue.service.txn_sending import PERFORM, SentEffect
from goqueue.sim.disk import SimDisk
from goqueue.wire.node_frames import Hello
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_damage import files, flip, log_of, record_of, restart, shard_of
from tests.txn.world import transactional_batch

TOPIC = "out"
GROUPED = TopicPartition("in", 0)


class Producer:
    """A transactional client that looks for leaders as Kafka's do."""

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.nodes = nodes
        self.name = name
        self.who = (name, -1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self) -> None:
        state = await patiently(lambda: self.nodes.keeper_of(self.name).transactions.init(self.name, 60_000))
        self.who = (self.name, state.producer_id, state.epoch)
        self._sequences.clear()

    async def write(self, at: TopicPartition, *values: str) -> None:
        keeper = lambda: self.nodes.keeper_of(self.name).transactions  # noqa: E731
        await patiently(lambda: keeper().add_partitions(*self.who, [at]))
        sequence = self._sequences.get(at, 0)
        batch = transactional_batch(list(values), self.who[1], self.who[2], sequence)
        await patiently(lambda: self.nodes.leader_of(at).publish.batch(PublishBatch(at, batch, Acks.ALL)))
        self._sequences[at] = sequence + len(values)

    async def move_group(self, group: str, offset: int) -> None:
        asked = CommitRequest(group, "", -1, None, [OffsetCommit(GROUPED.topic, GROUPED.partition, offset)])
        keeper = lambda: self.nodes.keeper_of(self.name).transactions  # noqa: E731
        await patiently(lambda: keeper().add_offsets(*self.who, asked, is_named=False))

    async def end(self, commit: bool = True) -> None:
        keeper = lambda: self.nodes.keeper_of(self.name).transactions  # noqa: E731
        await patiently(lambda: keeper().end(*self.who, commit=commit))


async def read(nodes: Nodes, at: TopicPartition) -> list[str]:
    """What a reader of committed data gets."""

    async def look() -> list[str]:
        partition = nodes.leader_of(at).topics.require(at.topic).partition(at.partition)
        batches, offset = list[bytes](), partition.start_offset
        while found := await fetched(offset):
            batches += found
            offset = read_header(found[-1]).last_offset + 1
        visible = [batch for batch in batches if partition.is_visible(read_header(batch))]
        return [one.value.decode() for batch in visible for one in decode(batch) if one.value is not None]

    async def fetched(offset: int) -> list[bytes]:
        """An answer may have less than there is."""
        command = Fetch([FetchFrom(at, offset, 1 << 20)], 1 << 20, 1, 0, Isolation.READ_COMMITTED)
        (answer,) = await nodes.leader_of(at).fetching.fetch(command)
        if answer.error is not None:
            raise answer.error
        return [bytes(batch) for batch in split(answer.batches)]

    return list(await patiently(look))


def is_whole(nodes: Nodes, at: TopicPartition) -> bool:
    """Nothing is open, and readers get to the end."""
    partition = nodes.leader_of(at).topics.require(at.topic).partition(at.partition)
    return not partition.producers.open_transactions() and partition.last_stable_offset == partition.end_offset


async def begin(nodes: Nodes) -> None:
    await nodes.create(TOPIC, 6)
    await nodes.create("in", 1)


def places(nodes: Nodes) -> list[TopicPartition]:
    """A partition of each node."""
    return [nodes.place_at(node, TOPIC) for node in range(3)]


async def committed(nodes: Nodes, group: str) -> int | None:
    async def look() -> int | None:
        found = nodes.keeper_of(group).groups.offsets(group).get(GROUPED)
        return None if found is None else found.offset

    return await patiently(look)  # type: ignore[no-any-return]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_over_partitions_and_groups_of_three_nodes(monkeypatch: pytest.MonkeyPatch, commit: bool) -> None:
    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        groups = [nodes.id_at(node, "g") for node in range(3)]
        for keeper in range(3):
            producer = Producer(nodes, nodes.id_at(keeper))
            await producer.init()
            for at in places(nodes):
                await producer.write(at, f"{keeper}a", f"{keeper}b")
            for group in groups:
                await producer.move_group(group, keeper + 1)
            assert not any([await read(nodes, at) for at in places(nodes)]) or keeper
            await producer.end(commit)
        for at in places(nodes):
            assert await read(nodes, at) == (["0a", "0b", "1a", "1b", "2a", "2b"] if commit else [])
            assert is_whole(nodes, at)
        assert [await committed(nodes, group) for group in groups] == [3 if commit else None] * 3

    run_nodes(story, monkeypatch)


# --- who dies, and who leads ---------------------------------------------------------------------------------------


async def one_transaction(nodes: Nodes, keeper: int) -> tuple[Producer, list[TopicPartition], list[str]]:
    """Everything of it is written; it has only to be ended."""
    await begin(nodes)
    producer, groups = Producer(nodes, nodes.id_at(keeper)), [nodes.id_at(node, "g") for node in range(3)]
    await producer.init()
    written = places(nodes)
    for at in written:
        await producer.write(at, "v")
    for group in groups:
        await producer.move_group(group, 5)
    return producer, written, groups


async def check_committed(nodes: Nodes, written: list[TopicPartition], groups: list[str]) -> None:
    for at in written:
        await until(lambda at=at: is_whole(nodes, at))  # type: ignore[misc]
        assert await read(nodes, at) == ["v"]
        partition = nodes.leader_of(at).topics.require(at.topic).partition(at.partition)
        markers = [one for batch in partition.log.batches(0) if (one := read_header(batch)).is_control]
        assert len(markers) == 1, "one end, one marker"
    for group in groups:
        await until_committed(nodes, group, 5)


async def until_committed(nodes: Nodes, group: str, offset: int) -> None:
    for _ in range(1_000):
        if await committed(nodes, group) == offset:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{group} was not moved")


class Trouble:
    """Something happens before the call of that number."""

    def __init__(self, nodes: Nodes, number: int, happens: Callable[[int, int], Awaitable[None]]) -> None:
        self.count = 0
        self._number = number
        self._happens = happens
        nodes.before_call = self._before

    async def _before(self, by: int, to: int, verb: str) -> None:
        if verb == PERFORM:
            self.count += 1
            if self.count == self._number:
                await self._happens(by, to)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("who", ["sender", "receiver"])
def test_a_power_cut_between_any_two_steps_of_a_commit(monkeypatch: pytest.MonkeyPatch, number: int, who: str) -> None:
    async def story(nodes: Nodes) -> None:
        producer, written, groups = await one_transaction(nodes, keeper=0)
        dead: list[int] = []

        async def die(by: int, to: int) -> None:
            dead.append(by if who == "sender" else to)
            nodes.kill(dead[0])

        Trouble(nodes, number, die)
        ending = asyncio.ensure_future(producer.end())
        await until(lambda: bool(dead))
        if who == "sender":
            ending.cancel()
        await nodes.start(dead[0])
        await nodes.until_led()
        await check_committed(nodes, written, groups)
        if who == "receiver":
            await ending

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_leader_that_moves_in_the_middle_of_a_commit(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    async def story(nodes: Nodes) -> None:
        producer, written, groups = await one_transaction(nodes, keeper=0)
        moving: list[asyncio.Task[None]] = []

        async def move_all(by: int, to: int) -> None:
            moving.append(asyncio.ensure_future(_move_all(nodes)))
            await asyncio.sleep(0.1)

        Trouble(nodes, number, move_all)
        await producer.end()
        await moving[0]
        await check_committed(nodes, written, groups)
        state = nodes.keeper_of(producer.name).transactions.describe(producer.name)
        assert state.stage is TxnStage.COMPLETE_COMMIT

    run_nodes(story, monkeypatch)


async def _move_all(nodes: Nodes) -> None:
    for shard in range(6):
        leader = nodes.any.node.shard_map.leader(shard)
        await nodes.move(shard, (leader + 1) % 3)


def test_a_marker_that_went_with_its_leader_is_written_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator's own node led the partition, and nobody fetched the marker before another did."""

    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        producer, shards = Producer(nodes, nodes.id_at(0)), nodes.any.node.shard_map
        (shard,) = set(nodes.led_by(0)) - {shards.of_id(producer.name)}
        at = next(one for number in range(6) if shards.of_partition(one := TopicPartition(TOPIC, number)) == shard)
        await producer.init()
        await producer.write(at, "v")
        moving: list[asyncio.Task[None]] = []
        mark, call = TransactionPartitions.mark, nodes.call

        def marked(partitions: TransactionPartitions, marker: WriteMarker) -> None:
            if not moving:
                moving.append(asyncio.ensure_future(nodes.move(shard, 1)))
            mark(partitions, marker)

        async def lossy(by: Hello, node: int, verb: str, body: bytes, within_s: float) -> bytes:
            told = await call(by, node, verb, body, within_s)
            if moving and not moving[0].done() and (node, verb) == (0, FETCH):
                raise PeerLost("The answer is lost.")
            return told

        monkeypatch.setattr(TransactionPartitions, "mark", marked)
        monkeypatch.setattr(nodes, "call", lossy)
        await producer.end()
        assert await read(nodes, at) == ["v"]
        assert is_whole(nodes, at)

    run_nodes(story, monkeypatch)


def test_a_message_whose_answer_was_committed_goes_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leader dies before its replicas know that the transaction has it, and its consumer leaves."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("jobs", 6)
        at, group = nodes.place_at(1, "jobs"), nodes.id_at(2, "g")
        await nodes.brokers[1].publish.messages(
            PublishMessages("jobs", [InputMessage(None, b"m", partition=at.partition)])
        )
        (taken,) = await nodes.brokers[1].leasing.take(Take(group, [at], "me", 1, 60_000))
        producer, verbs = Producer(nodes, nodes.id_at(0)), nodes.brokers[0].transactions
        await producer.init()
        await verbs.begin(*producer.who)
        await verbs.add_answers(*producer.who, [TxnAnswer(taken.receipt)])
        is_decided, may_go_on = asyncio.Event(), asyncio.Event()

        async def wait(by: int, to: int, verb: str) -> None:
            if verb == PERFORM:
                is_decided.set()
                await may_go_on.wait()

        nodes.before_call = wait
        with nodes.held_fetches(1):
            await asyncio.sleep(1)  # those under way end
            ending = asyncio.ensure_future(producer.end())
            await asyncio.wait([asyncio.ensure_future(is_decided.wait())], timeout=1)
            nodes.kill(1)
        await nodes.until_led()
        leasing = nodes.leader_of(at).leasing
        leasing.release(group, "me")
        again = await leasing.take(Take(group, [at], "other", 1, 60_000))
        may_go_on.set()
        await asyncio.wait([ending])
        state = nodes.keeper_of(producer.name).transactions.describe(producer.name)
        is_committed = ending.exception() is None or state.stage is not TxnStage.ONGOING
        assert len(again) + is_committed == 1, "either the transaction has it or the other consumer"

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("has_another", [True, False])
def test_an_answer_that_is_lost_moves_no_group_back(monkeypatch: pytest.MonkeyPatch, has_another: bool) -> None:
    """Another one commits before the coordinator asks again."""

    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        producer, group = Producer(nodes, nodes.id_at(0)), nodes.id_at(1, "g")
        await producer.init()
        lost: list[int] = []

        async def lose(by: int, to: int, verb: str) -> None:
            if verb == PERFORM and not lost:
                lost.append(to)
                raise PeerLost("The connection to the other node ended.")

        nodes.after_call = lose
        for offset in (5, 6) if has_another else (5,):  # in one epoch
            await nodes.brokers[0].transactions.begin(*producer.who)
            await producer.move_group(group, offset)
            ending = asyncio.ensure_future(producer.end())
            await until(lambda: bool(lost))
            if offset == 5:
                assert await committed(nodes, group) == 5
                other = CommitRequest(group, "", -1, None, [OffsetCommit(GROUPED.topic, GROUPED.partition, 9)])
                await nodes.keeper_of(group).groups.commit_all(other)
            await ending
        assert await committed(nodes, group) == (6 if has_another else 9)

    run_nodes(story, monkeypatch)


def test_a_former_coordinator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its marker would end another transaction of the same producer and epoch."""

    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        producer, (_, at, _) = Producer(nodes, nodes.id_at(0)), places(nodes)
        await producer.init()
        await producer.write(at, "v")
        shard = nodes.any.node.shard_map.of_id(producer.name)
        before = nodes.any.node.shard_map.epoch(shard)
        await nodes.move(shard, 2)
        marker = WriteMarker(producer.who[1], producer.who[2], before, at.topic, at.partition, commit=False)
        with pytest.raises(FencedEpoch):
            await nodes.brokers[0].elsewhere.ask(
                nodes.any.node.shard_map.of_partition(at), PERFORM, SentEffect(shard, before, marker), bool
            )
        await producer.end()
        assert await read(nodes, at) == ["v"]

    run_nodes(story, monkeypatch)


def test_a_producer_that_nobody_knows_is_refused_only_when_all_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        (at, *_) = places(nodes)
        asked = MayWrite(4_711, 0, at.topic, at.partition)
        answer = await nodes.leader_of(at).txn_questions.may_write(asked)
        assert isinstance(answer.error, InvalidProducerMapping)
        nodes.kill(2)
        with pytest.raises((PeerLost, NotLoaded)):
            await nodes.leader_of(at).txn_questions.may_write(asked)
        await nodes.start(2)
        await nodes.until_led()

    run_nodes(story, monkeypatch)


def test_what_nobody_will_end_is_aborted_by_the_next_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        producer, (at, *_) = Producer(nodes, nodes.id_at(1)), places(nodes)
        await producer.init()
        await producer.write(at, "open")
        orphan = transactional_batch(["orphan"], 99_999, 0, 0)
        partition = nodes.leader_of(at).topics.require(at.topic).partition(at.partition)
        partition.append(orphan, read_header(orphan), 0, append_time=False)
        await partition.wait_durable()
        assert set(partition.producers.open_transactions()) == {producer.who[1], 99_999}
        await nodes.move(nodes.any.node.shard_map.of_partition(at), 2)
        led = nodes.leader_of(at).topics.require(at.topic).partition(at.partition)
        await until(lambda: set(led.producers.open_transactions()) == {producer.who[1]})
        await producer.end()
        assert await read(nodes, at) == ["open"]

    run_nodes(story, monkeypatch)


def test_an_administrator_ends_only_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await begin(nodes)
        producer, (at, *_) = Producer(nodes, nodes.id_at(1)), places(nodes)
        await producer.init()
        await producer.write(at, "v")
        verbs = nodes.leader_of(at).transactions
        with pytest.raises(InvalidTxnState, match="not hanging"):
            await verbs.mark(at, producer.who[1], producer.who[2], commit=False)
        orphan = transactional_batch(["orphan"], 99_999, 0, 0)
        partition = nodes.leader_of(at).topics.require(at.topic).partition(at.partition)
        partition.append(orphan, read_header(orphan), 0, append_time=False)
        await verbs.mark(at, 99_999, 0, commit=False)
        assert set(partition.producers.open_transactions()) == {producer.who[1]}
        await producer.end()
        assert await read(nodes, at) == ["v"]

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("is_twice", [False, True])
def test_who_could_not_read_a_marker_when_it_started_knows_it_when_it_leads(
    monkeypatch: pytest.MonkeyPatch, is_twice: bool
) -> None:
    """It was damaged, and came from another replica; or so it was at the start before."""

    async def story(nodes: Nodes) -> None:
        await nodes.create(TOPIC, 6)
        at, producer = nodes.place_at(0, TOPIC), Producer(nodes, "p")
        await producer.init()
        for value, commit in (("one", True), ("aborted", False), ("two", True)):
            await producer.write(at, value)
            await producer.end(commit)
        await until(lambda: len({log_of(nodes, node, at).end_offset for node in range(3)}) == 1)
        await restart(nodes, 1, lambda disk: flip_batch(disk, at, 3))
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        await until(lambda: log_of(nodes, 1, at).home.stats.segments_mended > 0)
        if is_twice:
            await restart(nodes, 1, lambda disk: None)
        await until(lambda: 1 in record_of(nodes, shard_of(nodes, at)).in_sync)
        known = [nodes.brokers[node].topics.require(TOPIC).partition(at.partition) for node in (0, 1)]
        assert known[1].state.txns.aborted == known[0].state.txns.aborted != []
        nodes.kill(0)
        nodes.kill(2)
        await nodes.start(2)
        await nodes.until_led()
        assert await read(nodes, at) == ["one", "two"]

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("failing", ["a seal", "a read"])
def test_nor_does_it_count_before_it_knows_that_marker(monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """The disk is full as the segment is sealed that is to be mended, or the log cannot be read afterwards."""

    async def story(nodes: Nodes) -> None:
        await nodes.create(TOPIC, 6)
        at, producer = nodes.place_at(0, TOPIC), Producer(nodes, "p")
        await producer.init()
        for value, commit in (("one", True), ("aborted", False), ("two", True)):
            await producer.write(at, value)
            await producer.end(commit)
        await until(lambda: len({log_of(nodes, node, at).end_offset for node in range(3)}) == 1)
        if failing == "a seal":
            monkeypatch.setattr(Segment, "write_seal", refused_at_first(Segment.write_seal, errno.ENOSPC, nodes, at))
        else:
            look_again = PartitionProducers.look_again
            monkeypatch.setattr(PartitionProducers, "look_again", refused_at_first(look_again, errno.EMFILE))
        await restart(nodes, 1, lambda disk: flip_batch(disk, at, 3))
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        await until(lambda: log_of(nodes, 1, at).home.stats.segments_mended > 0)
        await until(lambda: 1 in record_of(nodes, shard_of(nodes, at)).in_sync)
        known = [nodes.brokers[node].topics.require(TOPIC).partition(at.partition) for node in (0, 1)]
        assert known[1].state.txns.aborted == known[0].state.txns.aborted != []

    run_nodes(story, monkeypatch)


def refused_at_first(
    do: Callable[..., Any], error: int, nodes: Nodes | None = None, at: TopicPartition | None = None
) -> Callable[..., Any]:
    """By the disk; the next time it is done. Of all, or of a log of node 1."""
    tries = count()

    def done(self: Any, *words: Any) -> Any:
        is_meant = nodes is None or at is None or (1 in nodes.brokers and self.home is log_of(nodes, 1, at).home)
        if is_meant and next(tries) == 0:
            raise OSError(error, "simulated")
        return do(self, *words)

    return done


def flip_batch(disk: SimDisk, at: TopicPartition, number: int) -> None:
    path = files(disk, at)[0]
    starts = [start for start, _, _, _ in strides(disk.read_file(path) or b"")]
    flip(disk, path, starts[number] + 65)
