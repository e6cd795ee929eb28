"""What clients of a transactional id or a group are told where its coordinator could not write, or nobody knows yet
whether it did: to ask it again. Anything else ends a transaction of the C client that may be committed."""

from __future__ import annotations

import pytest

from goqueue.base.errors import (
    DiskFull,
    FencedEpoch,
    GoQueueError,
    LeaderChanged,
    NotEnoughReplicas,
    NotLoaded,
    OutOfResources,
    ReplicasTimedOut,
    StorageFailed,
    TooFewHaveIt,
)
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import SLICE_ELEMENTS
from goqueue.core.groups.records import OffsetCommitted
from goqueue.service.groups import Groups
from goqueue.service.transactions import TransactionVerbs
from goqueue.wire import codes
from goqueue.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from goqueue.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from goqueue.wire.messages.end_txn import EndTxnRequest
from goqueue.wire.messages.init_producer_id import InitProducerIdRequest
from goqueue.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from goqueue.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from goqueue.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.edge.kafka.one_of_three import TOPIC, Door, Run

TOLD: dict[type[GoQueueError], int] = {
    DiskFull: codes.COORDINATOR_NOT_AVAILABLE,
    OutOfResources: codes.COORDINATOR_NOT_AVAILABLE,
    NotEnoughReplicas: codes.COORDINATOR_NOT_AVAILABLE,
    TooFewHaveIt: codes.COORDINATOR_NOT_AVAILABLE,
    ReplicasTimedOut: codes.COORDINATOR_NOT_AVAILABLE,
    StorageFailed: codes.NOT_COORDINATOR,
    LeaderChanged: codes.NOT_COORDINATOR,
    FencedEpoch: codes.NOT_COORDINATOR,
}


@pytest.mark.parametrize("trouble", TOLD)
def test_a_coordinator_that_could_not_write_is_asked_again(
    told: Run, monkeypatch: pytest.MonkeyPatch, trouble: type[GoQueueError]
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise trouble("Not now.")

    async def story(door: Door) -> None:
        monkeypatch.setattr(TransactionVerbs, "end", fail)
        monkeypatch.setattr(TransactionVerbs, "add_group", fail)
        monkeypatch.setattr(Groups, "commit", lambda *_: trouble("Not now."))
        name = door.id_led_by(0)
        ended = await door.ask(EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, committed=True))
        assert ended.error_code == TOLD[trouble]
        added = await door.ask(
            AddOffsetsToTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, group_id=name)
        )
        assert added.error_code == TOLD[trouble]
        committed = await door.ask(offset_commit(name, door.led_by(0)), 8)
        assert committed.topics[0].partitions[0].error_code == TOLD[trouble]

    told(story)


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_of_a_group_that_is_not_loaded_are_not_taken_for_none(told: Run, version: int) -> None:
    async def story(door: Door) -> None:
        group = door.id_led_by(0)
        door.broker.group_hosts.of(group).unload()
        topics = [OffsetFetchRequestTopic(TOPIC, [0, 1])]
        answer = await door.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
        found = [(one.partition_index, one.committed_offset, one.error_code) for one in answer.topics[0].partitions]
        assert found == [(number, -1, codes.COORDINATOR_LOAD_IN_PROGRESS) for number in (0, 1)]
        assert version < 2 or answer.error_code == codes.COORDINATOR_LOAD_IN_PROGRESS

    told(story)


@pytest.mark.parametrize("version", [7, 9])
@pytest.mark.parametrize("failed", range(3))
def test_a_group_that_is_loaded_while_many_of_its_offsets_are_looked_up_is_not_loaded(
    told: Run, monkeypatch: pytest.MonkeyPatch, version: int, failed: int
) -> None:
    troubles: list[GoQueueError | None] = [NotLoaded("Not now.") if part == failed else None for part in range(3)]

    def offsets(*_: object) -> dict[TopicPartition, OffsetCommitted]:
        if (trouble := troubles.pop(0)) is not None:
            raise trouble
        return {}

    async def story(door: Door) -> None:
        monkeypatch.setattr(Groups, "offsets", offsets)
        group, numbers = door.id_led_by(0), range(3 * SLICE_ELEMENTS - 10)
        old = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(TOPIC, numbers)])
        one = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(TOPIC, partition_indexes=numbers)])
        answer = await door.ask(old if version < 8 else OffsetFetchRequest(groups=[one]), version)
        found = [answer.error_code] if version < 8 else [one.error_code for one in answer.groups]
        assert found == [codes.COORDINATOR_LOAD_IN_PROGRESS] and not troubles

    told(story)


@pytest.mark.parametrize("version", [3, 5])
def test_a_producer_whose_consumer_has_a_stale_epoch_may_abort_and_go_on(told_alone: Run, version: int) -> None:
    async def story(door: Door) -> None:
        joins = ConsumerGroupHeartbeatRequest(
            "g", "m", rebalance_timeout_ms=1_000, subscribed_topic_names=[TOPIC], topic_partitions=[]
        )
        epoch = (await door.ask(joins)).member_epoch
        begun = await door.ask(InitProducerIdRequest("p", 10_000), 4)
        who = (begun.producer_id, begun.producer_epoch)
        if version < 5:
            assert (await door.ask(AddOffsetsToTxnRequest("p", *who, "g"), 3)).error_code == codes.NONE
        topics = [TxnOffsetCommitRequestTopic(TOPIC, [TxnOffsetCommitRequestPartition(0, 7)])]
        for shown, code in ((epoch + 1, codes.ILLEGAL_GENERATION), (epoch, codes.NONE)):
            answer = await door.ask(TxnOffsetCommitRequest("p", "g", *who, shown, "m", topics=topics), version)
            assert answer.topics[0].partitions[0].error_code == code

    told_alone(story)


def offset_commit(group: str, partition: int) -> OffsetCommitRequest:
    places = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=0, committed_metadata="")]
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=places)])
