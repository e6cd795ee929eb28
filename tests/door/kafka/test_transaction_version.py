"""Transactions of version 2 (KIP-890): what is written to is part of them, each has its own epoch, an abort is fine
where nothing was begun. And what an administrator does about one that hangs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from goqueue.format.records import InTransaction, NewRecord, build
from goqueue.wire.messages import produce
from goqueue.wire.messages import txn_offset_commit as committing
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from goqueue.wire.messages.describe_transactions import DescribeTransactionsRequest
from goqueue.wire.messages.end_txn import EndTxnRequest
from goqueue.wire.messages.init_producer_id import InitProducerIdRequest
from goqueue.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from goqueue.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.door.kafka.raw import Line, offsets_of, unique

pytestmark = pytest.mark.usefixtures("watched")

NAMES_BY = 12  # the last version of Produce that names topics
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED = 47, 48, 90


class InTxn:
    """A transactional producer by hand."""

    def __init__(self, line: Line, name: str) -> None:
        self._line = line
        self.name = name
        told = line.ask(InitProducerIdRequest(name, 60_000), 5)
        assert told.error_code == 0
        self.producer_id, self.epoch = told.producer_id, told.producer_epoch
        self._sequences: dict[tuple[str, int], int] = {}

    def request(self, topic: str, partition: int, value: bytes = b"v") -> produce.ProduceRequest:
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + 1
        txn = InTransaction(self.producer_id, self.epoch, sequence)
        data = produce.PartitionProduceData(partition, build([NewRecord(b"k", value, (), 0)], 0, txn))
        topics = [produce.TopicProduceData(name=topic, partition_data=[data])]
        return produce.ProduceRequest(self.name, -1, 5_000, topics)

    def produce(self, topic: str, partition: int) -> int:
        answer = self._line.ask(self.request(topic, partition), NAMES_BY)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    def end(self, commit: bool) -> int:
        told = self._line.ask(EndTxnRequest(self.name, self.producer_id, self.epoch, commit), 5)
        if told.error_code == 0:
            self.producer_id, self.epoch = told.producer_id, told.producer_epoch
            self._sequences.clear()
        code: int = told.error_code
        return code


def stable_end(line: Line, topic: str) -> int:
    asked = msgspec.structs.replace(offsets_of(topic, 0, -1), isolation_level=1)
    offset: int = line.ask(asked).topics[0].partitions[0].offset
    return offset


def test_the_features_are_finalized(kafka: str) -> None:
    with Line(kafka) as line:
        told = line.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
    finalized = {one.name: one.max_version_level for one in told.finalized_features}
    assert finalized == {"group.version": 1, "share.version": 1, "transaction.version": 2}
    assert told.finalized_features_epoch >= 0


def test_a_produce_makes_its_partition_part_of_the_transaction(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        mine = InTxn(line, unique("v2"))
        for commit in (True, False, True):
            epoch = mine.epoch
            assert [mine.produce(topic, 0), mine.produce(topic, 0), mine.produce(topic, 1)] == [0, 0, 0]
            (state,) = line.ask(DescribeTransactionsRequest([mine.name])).transaction_states
            assert state.transaction_state == "Ongoing"
            assert [(one.topic, list(one.partitions)) for one in state.topics] == [(topic, [0, 1])]
            assert mine.end(commit) == 0 and mine.epoch == epoch + 1
        assert stable_end(line, topic) == 9


def test_requests_that_are_sent_at_once_are_stored_in_order(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        mine = InTxn(line, unique("v2"))
        for _ in range(20):
            numbers = [line.send(mine.request(topic, 0, b"%d" % at), NAMES_BY) for at in range(5)]
            answers = dict(line.receive() for _ in numbers)
            codes = [answers[one].responses[0].partition_responses[0].error_code for one in numbers]
            assert codes == [0] * 5
            assert mine.end(commit=True) == 0


def test_a_request_does_not_overtake_one_that_adds_a_partition(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        mine = InTxn(line, unique("v2"))
        for _ in range(20):
            assert mine.produce(topic, 0) == 0
            both = [*mine.request(topic, 1).topic_data, *mine.request(topic, 0).topic_data]
            widening = produce.ProduceRequest(mine.name, -1, 5_000, both)
            numbers = [line.send(one, NAMES_BY) for one in (widening, mine.request(topic, 0))]
            answers = dict(line.receive() for _ in numbers)
            codes = [
                part.error_code
                for one in numbers
                for named in answers[one].responses
                for part in named.partition_responses
            ]
            assert codes == [0, 0, 0]
            assert mine.end(commit=True) == 0


def test_an_older_produce_does_not_make_its_partition_part_of_it(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        mine = InTxn(line, unique("v1"))
        answer = line.ask(mine.request(topic, 0), 11)
        assert answer.responses[0].partition_responses[0].error_code == INVALID_TXN_STATE


def test_who_was_replaced_is_refused(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        old = InTxn(line, unique("v2"))
        InTxn(line, old.name)
        assert old.produce(topic, 0) == INVALID_PRODUCER_EPOCH
        assert old.end(commit=True) == PRODUCER_FENCED
        assert stable_end(line, topic) == 0


def test_offsets_make_their_group_part_of_the_transaction(kafka: str, topic: str) -> None:
    group = unique("g")
    with Line(kafka) as line:
        mine = InTxn(line, unique("v2"))
        part = committing.TxnOffsetCommitRequestPartition(0, 7)
        named = committing.TxnOffsetCommitRequestTopic(topic, [part])
        who = (mine.name, group, mine.producer_id, mine.epoch)
        told = line.ask(committing.TxnOffsetCommitRequest(*who, topics=[named]), 5)
        assert told.topics[0].partitions[0].error_code == 0
        assert mine.end(commit=True) == 0
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
        (found,) = line.ask(asked, 9).groups
        assert found.topics[0].partitions[0].committed_offset == 7


def test_an_abort_is_fine_where_nothing_was_begun(kafka: str) -> None:
    with Line(kafka) as line:
        mine = InTxn(line, unique("v2"))
        epoch = mine.epoch
        assert mine.end(commit=False) == 0 and mine.epoch == epoch + 1
        assert mine.end(commit=True) == INVALID_TXN_STATE


# --- administrators ------------------------------------------------------------------------------------------


def mark(line: Line, producer_id: int, epoch: int, topic: str, commit: bool = False) -> int:
    marker = WritableTxnMarker(producer_id, epoch, commit, [WritableTxnMarkerTopic(topic, [0])], 0)
    answer: Any = line.ask(WriteTxnMarkersRequest([marker]), 1)
    code: int = answer.markers[0].topics[0].partitions[0].error_code
    return code


def test_an_administrator_aborts_an_open_transaction_as_a_whole(kafka: str, topic: str) -> None:
    """Java's `Admin.abortTransaction` sends a marker for one partition."""
    with Line(kafka) as line:
        open_ = InTxn(line, unique("hangs"))
        assert [open_.produce(topic, 0), open_.produce(topic, 1)] == [0, 0]
        assert stable_end(line, topic) == 0
        assert mark(line, open_.producer_id, open_.epoch, topic, commit=True) == INVALID_TXN_STATE
        assert mark(line, open_.producer_id, open_.epoch, topic) == 0
        assert stable_end(line, topic) == 2
        (state,) = line.ask(DescribeTransactionsRequest([open_.name])).transaction_states
        assert state.transaction_state == "CompleteAbort"
        assert open_.produce(topic, 0) == INVALID_PRODUCER_EPOCH


def test_a_marker_of_an_epoch_that_is_over_ends_nothing(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        old = InTxn(line, unique("v2"))
        new = InTxn(line, old.name)
        assert new.produce(topic, 0) == 0
        assert mark(line, new.producer_id, old.epoch, topic) == INVALID_PRODUCER_EPOCH
        assert new.end(commit=True) == 0
