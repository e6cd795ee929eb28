"""Batches that an idempotent producer sent behind one that was refused: they are refused alike, not out of order."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from goqueue.base.errors import GoQueueError, NotEnoughReplicas, NotLeader, NotLoaded, OutOfOrderSequence
from goqueue.base.ids import TopicPartition
from goqueue.core.dedupe import SEQUENCE_MAX
from goqueue.core.txn.errors import ConcurrentTransactions
from goqueue.core.txn.records import TxnState
from goqueue.drive.partition import Partition
from goqueue.edge.kafka.calls import KafkaPeer
from goqueue.edge.kafka.refusals import BEHIND_MAX, WRITERS_MAX, Refusals
from goqueue.service.transactions import TransactionVerbs
from goqueue.wire import codes
from goqueue.wire.messages.init_producer_id import InitProducerIdRequest
from tests.door.kafka.raw import batch, produce_to
from tests.edge.kafka.one_of_three import TOPIC, Door, Run
from tests.txn.world import transactional_batch

AT = TopicPartition(TOPIC, 0)
NOT_LEADER, OUT_OF_ORDER = NotLeader("elsewhere"), OutOfOrderSequence("a gap")


def numbered(sequence: int, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch(b"v", timestamp_ms=0, producer=(producer_id, epoch, sequence))


class Client:
    """An idempotent producer on one connection."""

    def __init__(self, door: Door, partition: Partition) -> None:
        self._door = door
        self._partition = partition
        self._peer = KafkaPeer("127.0.0.1")

    def send(self, sequence: int, acks: int = 1) -> asyncio.Future[Any]:
        request = produce_to(TOPIC, self._partition.at.partition, numbered(sequence), acks)
        return asyncio.ensure_future(self._door.ask(request, 9, self._peer))

    async def code(self, sequence: int) -> int:
        return code_of(await self.send(sequence))

    async def offset(self, sequence: int) -> int:
        (answer,) = (await self.send(sequence)).responses[0].partition_responses
        assert answer.error_code == codes.NONE
        return int(answer.base_offset)


def code_of(response: Any) -> int:
    (answer,) = response.responses[0].partition_responses
    return int(answer.error_code)


def test_what_was_stored_when_the_leader_changed_is_recognised_although_others_were_sent_behind_it(told: Run) -> None:
    """The first is stored and cannot be acknowledged, the second is refused while the partition is taken over, and the
    third comes when it is served again."""

    async def story(door: Door) -> None:
        partition = door.broker.topics.require(TOPIC).partition(door.led_by(0))
        client, state = Client(door, partition), partition.state
        first = client.send(0, acks=-1)
        await asyncio.sleep(0.1)
        state.led_by(msgspec.structs.replace(state.shard, epoch=state.shard.epoch + 1))
        partition.serve(False)
        assert code_of(await first) == codes.NOT_LEADER_OR_FOLLOWER
        assert await client.code(1) == codes.NOT_LEADER_OR_FOLLOWER
        partition.serve()
        assert [await client.code(2), await client.code(3)] == [codes.NOT_LEADER_OR_FOLLOWER] * 2
        assert [await client.offset(sequence) for sequence in range(4)] == [0, 1, 2, 3]
        assert partition.end_offset == 4

    told(story)


def test_what_was_stored_and_cut_off_by_another_leader_is_sent_again_before_what_is_behind_it(told: Run) -> None:
    """The first is stored and cannot be acknowledged; this node leads again without it when the second comes."""

    async def story(door: Door) -> None:
        partition = door.broker.topics.require(TOPIC).partition(door.led_by(0))
        client, state = Client(door, partition), partition.state
        assert await client.offset(0) == 0
        lost = client.send(1, acks=-1)
        await asyncio.sleep(0.1)
        state.led_by(msgspec.structs.replace(state.shard, epoch=state.shard.epoch + 2))
        partition.serve(False)
        assert code_of(await lost) == codes.NOT_LEADER_OR_FOLLOWER
        partition.cut(1, door.broker.clock.now_ms())
        partition.serve()
        assert [await client.code(2), await client.code(3)] == [codes.NOT_LEADER_OR_FOLLOWER] * 2
        assert [await client.offset(sequence) for sequence in range(4)] == [0, 1, 2, 3]

    told(story)


def test_a_partition_that_does_not_know_the_producer_takes_its_first_batch_first(told: Run) -> None:
    async def story(door: Door) -> None:
        partition = door.broker.topics.require(TOPIC).partition(door.led_by(0))
        client = Client(door, partition)
        partition.lead(None)
        assert await client.code(0) == codes.NOT_LEADER_OR_FOLLOWER
        partition.state.is_led = partition.state.is_served = True
        assert await client.code(1) == codes.NOT_LEADER_OR_FOLLOWER
        assert [await client.offset(sequence) for sequence in range(3)] == [0, 1, 2]

    told(story)


@pytest.mark.parametrize("trouble", [NotLoaded, NotLeader, ConcurrentTransactions])
def test_so_it_is_where_the_coordinator_could_not_add_the_partition(
    told_alone: Run, monkeypatch: pytest.MonkeyPatch, trouble: type[GoQueueError]
) -> None:
    add, troubles = TransactionVerbs.add_partitions, [trouble("Not now.")]

    async def added(self: TransactionVerbs, *asked: Any) -> TxnState:
        if troubles:
            raise troubles.pop()
        return await add(self, *asked)

    async def story(door: Door) -> None:
        monkeypatch.setattr(TransactionVerbs, "add_partitions", added)
        begun, peer = await door.ask(InitProducerIdRequest("p", 10_000), 4), KafkaPeer("127.0.0.1")

        async def send(sequence: int) -> tuple[int, int]:
            batch = transactional_batch(["v"], begun.producer_id, begun.producer_epoch, sequence)
            request = msgspec.structs.replace(produce_to(TOPIC, 0, batch), transactional_id="p")
            (answer,) = (await door.ask(request, 12, peer)).responses[0].partition_responses
            return answer.error_code, answer.base_offset

        is_busy = trouble is ConcurrentTransactions
        refused = codes.CONCURRENT_TRANSACTIONS if is_busy else codes.NOT_ENOUGH_REPLICAS, -1
        assert [await send(0), await send(1)] == [refused] * 2
        assert [await send(sequence) for sequence in range(3)] == [(codes.NONE, offset) for offset in range(3)]

    told_alone(story)


def test_one_that_comes_again_and_again_is_waited_for() -> None:
    refusals = Refusals()
    for _ in range(BEHIND_MAX):
        refusals.told(AT, numbered(5), NOT_LEADER)
        assert [refusals.before(AT, numbered(sequence)) for sequence in (6, 7)] == [NOT_LEADER] * 2
    assert refusals.before(AT, numbered(5)) is None, "it may be stored"
    assert refusals.before(AT, numbered(4)) is None, "as may what is before it"


def test_one_that_another_node_has_stored_meanwhile_is_not_waited_for() -> None:
    """Its client begins with a later one, again and again, until this node leads again: in the middle of such a row the
    batches behind it must not be out of order."""
    refusals = Refusals()
    refusals.told(AT, numbered(5), NOT_LEADER)
    for _ in range(BEHIND_MAX):
        for sequence in (10, 11, 12, 13):
            assert refusals.before(AT, numbered(sequence)) in (None, NOT_LEADER)
            assert refusals.told(AT, numbered(sequence), NOT_LEADER) is NOT_LEADER
    assert refusals.before(AT, numbered(14)) is NOT_LEADER
    assert refusals.told(AT, numbered(14), OUT_OF_ORDER) is NOT_LEADER


def test_of_two_that_were_refused_the_first_in_order_counts() -> None:
    refusals = Refusals()
    refusals.told(AT, numbered(6), NOT_LEADER)
    refusals.told(AT, numbered(5), NOT_LEADER)
    assert refusals.before(AT, numbered(6)) is NOT_LEADER
    refusals.told(AT, numbered(7), NOT_LEADER)
    assert refusals.before(AT, numbered(5)) is None


def test_sequences_go_on_at_0_behind_the_largest() -> None:
    refusals = Refusals()
    refusals.told(AT, numbered(SEQUENCE_MAX), NOT_LEADER)
    assert refusals.before(AT, numbered(0)) is NOT_LEADER
    assert refusals.before(AT, numbered(SEQUENCE_MAX - 1)) is None


def test_a_gap_behind_nothing_that_was_refused_is_out_of_order(told: Run) -> None:
    async def story(door: Door) -> None:
        client = Client(door, door.broker.topics.require(TOPIC).partition(door.led_by(0)))
        assert await client.offset(0) == 0
        assert await client.code(2) == codes.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await client.offset(1) == 1

    told(story)


def test_a_refused_batch_that_comes_again_and_is_out_of_order_is_told_so() -> None:
    refusals = Refusals()
    assert refusals.told(AT, numbered(5), NOT_LEADER) is NOT_LEADER
    assert refusals.told(AT, numbered(6), OUT_OF_ORDER) is NOT_LEADER
    assert refusals.told(AT, numbered(5), OUT_OF_ORDER) is OUT_OF_ORDER


def test_it_is_the_word_of_the_first_that_was_refused_and_holds_until_one_is_stored() -> None:
    refusals, too_few = Refusals(), NotEnoughReplicas("one")
    refusals.told(AT, numbered(5), too_few)
    refusals.told(AT, numbered(6), NOT_LEADER)
    assert refusals.told(AT, numbered(7), OUT_OF_ORDER) is too_few
    refusals.stored(AT, numbered(5))
    assert refusals.told(AT, numbered(7), OUT_OF_ORDER) is OUT_OF_ORDER


def test_other_producers_epochs_and_partitions_have_nothing_to_do_with_it() -> None:
    refusals = Refusals()
    refusals.told(AT, numbered(5), NOT_LEADER)
    refusals.told(AT, batch(b"v"), NOT_LEADER)  # of no producer
    refusals.told(AT, b"nothing", NOT_LEADER)
    assert refusals.told(AT, numbered(6, epoch=1), OUT_OF_ORDER) is OUT_OF_ORDER
    assert refusals.told(AT, numbered(6, producer_id=8), OUT_OF_ORDER) is OUT_OF_ORDER
    assert refusals.told(TopicPartition(TOPIC, 1), numbered(6), OUT_OF_ORDER) is OUT_OF_ORDER


def test_a_client_that_never_sends_the_first_one_again_hears_of_the_gap() -> None:
    refusals = Refusals()
    refusals.told(AT, numbered(5), NOT_LEADER)
    told = [refusals.told(AT, numbered(6), OUT_OF_ORDER) for _ in range(BEHIND_MAX + 1)]
    assert told == [NOT_LEADER] * BEHIND_MAX + [OUT_OF_ORDER]


def test_a_connection_remembers_a_bounded_number_of_producers() -> None:
    refusals = Refusals()
    for producer_id in range(WRITERS_MAX + 1):
        refusals.told(AT, numbered(5, producer_id), NOT_LEADER)
    assert refusals.told(AT, numbered(6, 0), OUT_OF_ORDER) is OUT_OF_ORDER
    assert refusals.told(AT, numbered(6, WRITERS_MAX), OUT_OF_ORDER) is NOT_LEADER
