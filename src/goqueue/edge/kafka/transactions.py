"""Kafka's transactional producers, and what administrators ask about them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from goqueue.base.access import AclOperation, ResourceKind
from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import PATTERN_SECONDS_MAX
from goqueue.core.groups.errors import IllegalGeneration, StaleMemberEpoch, UnknownGroup
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.core.patterns import InvalidPattern, TopicPattern, compile_pattern
from goqueue.core.txn.errors import ProducerFenced, UnknownTransaction
from goqueue.core.txn.questions import MayWrite
from goqueue.core.txn.records import TxnStage, TxnState
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import code_of, coordinator_code, partition_code
from goqueue.edge.kafka.operations import Rights
from goqueue.service.front import Front
from goqueue.service.time_slices import TimeSlices
from goqueue.service.topics import Topics
from goqueue.service.transactions import TransactionVerbs
from goqueue.wire.codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from goqueue.wire.messages import add_partitions_to_txn as adding
from goqueue.wire.messages import describe_transactions as describing
from goqueue.wire.messages import list_transactions as listing
from goqueue.wire.messages import txn_offset_commit as committing
from goqueue.wire.messages import write_txn_markers as marking
from goqueue.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from goqueue.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_FROM = 2  # the version of these APIs from which clients know PRODUCER_FENCED
_BUMPS_FROM = 5  # the version of EndTxn from which a client takes a new epoch for each transaction
_BATCHED_FROM = 4  # the version of AddPartitionsToTxn from which it carries many transactions
_ADDS_GROUPS_FROM = 5  # the version of TxnOffsetCommit that makes its group part of the transaction
_GENERATIONS_FROM = 3  # the version of TxnOffsetCommit from which members are checked


class TransactionHandler:
    def __init__(
        self,
        transactions: Front[TransactionVerbs],
        topics: Front[Topics],
        rights: Rights,
        anywhere: Front[TransactionVerbs] | None = None,
    ) -> None:
        """`anywhere` asks the node that keeps a transaction: offsets of one come to the node that keeps their group."""
        self._rights = rights
        self._transactions = transactions
        self._anywhere = anywhere or transactions
        self._topics = topics

    # --- producers -------------------------------------------------------------------------------------------

    async def add_partitions(
        self, call: KafkaCall, request: adding.AddPartitionsToTxnRequest
    ) -> adding.AddPartitionsToTxnResponse:
        if call.version >= _BATCHED_FROM:
            results = [
                adding.AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id, topic_results=await self._add(call, one)
                )
                for one in request.transactions
            ]
            return adding.AddPartitionsToTxnResponse(results_by_transaction=results)
        only = adding.AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return adding.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await self._add(call, only))

    async def _add(
        self, call: KafkaCall, asked: adding.AddPartitionsToTxnTransaction
    ) -> list[adding.AddPartitionsToTxnTopicResult]:
        """All or none: where one partition is missing the others are not attempted."""
        wanted: list[TopicPartition] = []
        refused_codes: dict[TopicPartition, int] = {}
        pace = TimeSlices()
        for topic in asked.topics:
            is_writable = self._may(call.caller, AclOperation.WRITE, topic.name)
            for number in topic.partitions:
                wanted.append(TopicPartition(topic.name, number))
                if not is_writable:
                    refused_codes[wanted[-1]] = TOPIC_AUTHORIZATION_FAILED
                elif not self._exists(call.caller, wanted[-1]):
                    refused_codes[wanted[-1]] = UNKNOWN_TOPIC_OR_PARTITION
                await pace.pause()
        codes = {at: refused_codes.get(at, OPERATION_NOT_ATTEMPTED) for at in wanted}
        if not self._rights.allows(
            call.caller, AclOperation.WRITE, ResourceKind.TRANSACTIONAL_ID, asked.transactional_id
        ):
            codes = dict.fromkeys(wanted, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        elif not refused_codes:
            code = NONE
            try:
                if asked.verify_only:
                    for at in wanted:
                        question = MayWrite(asked.producer_id, asked.producer_epoch, at.topic, at.partition)
                        if (refused := self._transactions.by(call.caller).may_write(question).error) is not None:
                            raise refused
                else:
                    await self._transactions.by(call.caller).add_partitions(
                        asked.transactional_id, asked.producer_id, asked.producer_epoch, wanted
                    )
            except GoQueueError as error:
                code = producer_code(error, call.version >= _FENCED_FROM)
            codes = dict.fromkeys(wanted, code)
        return [
            adding.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    adding.AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=codes[TopicPartition(topic.name, number)]
                    )
                    for number in topic.partitions
                ],
            )
            for topic in asked.topics
        ]

    def _may(self, caller: Caller, operation: AclOperation, topic: str) -> bool:
        return self._rights.allows(caller, operation, ResourceKind.TOPIC, topic)

    def _exists(self, caller: Caller, at: TopicPartition) -> bool:
        topic = self._topics.by(caller).find(at.topic)
        return topic is not None and not topic.is_internal and 0 <= at.partition < len(topic.partitions)

    async def add_offsets(self, call: KafkaCall, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        try:
            await self._transactions.by(call.caller).add_group(
                request.transactional_id, request.producer_id, request.producer_epoch, request.group_id
            )
        except GoQueueError as error:
            return AddOffsetsToTxnResponse(error_code=producer_code(error, call.version >= _FENCED_FROM))
        return AddOffsetsToTxnResponse()

    async def commit_offsets(
        self, call: KafkaCall, request: committing.TxnOffsetCommitRequest
    ) -> committing.TxnOffsetCommitResponse:
        offsets = [
            OffsetCommit(
                topic.name,
                one.partition_index,
                one.committed_offset,
                one.committed_leader_epoch,
                one.committed_metadata or "",
            )
            for topic in request.topics
            for one in topic.partitions
        ]
        known = [one for one in offsets if not self._offset_code(call.caller, one.topic, one.partition)]
        code = NONE
        try:
            if call.version >= _ADDS_GROUPS_FROM:
                await self._anywhere.by(call.caller).add_group(
                    request.transactional_id, request.producer_id, request.producer_epoch, request.group_id
                )
            await self._anywhere.by(call.caller).add_offsets(
                request.transactional_id, request.producer_id, request.producer_epoch, _commit(call, request, known)
            )
        except GoQueueError as error:
            code = producer_code(error, knows_fenced=False)
        topics = [
            committing.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    committing.TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=self._offset_code(call.caller, topic.name, one.partition_index) or code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return committing.TxnOffsetCommitResponse(topics=topics)

    def _offset_code(self, caller: Caller, topic: str, partition: int) -> int:
        if not self._may(caller, AclOperation.READ, topic):
            return TOPIC_AUTHORIZATION_FAILED
        return NONE if self._exists(caller, TopicPartition(topic, partition)) else UNKNOWN_TOPIC_OR_PARTITION

    async def end(self, call: KafkaCall, request: EndTxnRequest) -> EndTxnResponse:
        try:
            state = await self._transactions.by(call.caller).end(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                request.committed,
                bump=call.version >= _BUMPS_FROM,
                may_be_idle=call.version >= _BUMPS_FROM,
            )
        except GoQueueError as error:
            code = producer_code(error, call.version >= _FENCED_FROM)
            return EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        return EndTxnResponse(producer_id=state.producer_id, producer_epoch=state.epoch)

    # --- administrators --------------------------------------------------------------------------------------

    async def write_markers(
        self, call: KafkaCall, request: marking.WriteTxnMarkersRequest
    ) -> marking.WriteTxnMarkersResponse:
        return marking.WriteTxnMarkersResponse(markers=[await self._mark(call.caller, one) for one in request.markers])

    async def _mark(self, caller: Caller, asked: marking.WritableTxnMarker) -> marking.WritableTxnMarkerResult:
        topics: list[marking.WritableTxnMarkerTopicResult] = []
        for topic in asked.topics:
            results: list[marking.WritableTxnMarkerPartitionResult] = []
            for number in topic.partition_indexes:
                code = NONE
                try:
                    at = TopicPartition(topic.name, number)
                    await self._transactions.by(caller).mark(
                        at, asked.producer_id, asked.producer_epoch, asked.transaction_result
                    )
                except GoQueueError as error:
                    code = partition_code(error)
                results.append(marking.WritableTxnMarkerPartitionResult(partition_index=number, error_code=code))
            topics.append(marking.WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
        return marking.WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics)

    def describe(
        self, call: KafkaCall, request: describing.DescribeTransactionsRequest
    ) -> describing.DescribeTransactionsResponse:
        return describing.DescribeTransactionsResponse(
            transaction_states=[self._describe(call.caller, name) for name in dict.fromkeys(request.transactional_ids)]
        )

    def _describe(self, caller: Caller, transactional_id: str) -> describing.TransactionState:
        try:
            state = self._transactions.by(caller).describe(transactional_id)
        except GoQueueError as error:
            return describing.TransactionState(error_code=coordinator_code(error), transactional_id=transactional_id)
        return describing.TransactionState(
            transactional_id=transactional_id,
            transaction_state=state.stage.value,
            transaction_timeout_ms=state.timeout_ms,
            transaction_start_time_ms=state.started_ms or -1,
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            topics=list(_by_topic(state.partitions)),
        )

    async def list(self, call: KafkaCall, request: listing.ListTransactionsRequest) -> listing.ListTransactionsResponse:
        stages = {stage.value for stage in TxnStage}
        wanted, producers = frozenset(request.state_filters), frozenset(request.producer_id_filters)
        try:
            asked = request.transactional_id_pattern
            pattern = compile_pattern(asked) if asked else None
            states = [
                one
                for one in self._transactions.by(call.caller).all()
                if self._fits(call.caller, one, wanted, producers, request.duration_filter)
            ]
            found = await _matching(states, pattern)
        except GoQueueError as error:
            return listing.ListTransactionsResponse(error_code=coordinator_code(error))
        unknown = [name for name in request.state_filters if name not in stages]
        return listing.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)

    def _fits(
        self, caller: Caller, state: TxnState, stages: frozenset[str], producers: frozenset[int], runs_ms: int
    ) -> bool:
        if stages and state.stage.value not in stages:
            return False
        if producers and state.producer_id not in producers:
            return False
        return runs_ms < 0 or self._transactions.by(caller).runs_for_ms(state) > runs_ms


async def _matching(states: Iterable[TxnState], pattern: TopicPattern | None) -> list[listing.TransactionState]:
    """With pauses for others. A pattern that takes too long for all ids is refused."""
    found: list[listing.TransactionState] = []
    pace = TimeSlices(PATTERN_SECONDS_MAX)
    for state in states:
        if pattern is None or pattern.matches(state.transactional_id):
            found.append(
                listing.TransactionState(
                    transactional_id=state.transactional_id,
                    producer_id=state.producer_id,
                    transaction_state=state.stage.value,
                )
            )
        await pace.pause()
        if pattern is not None and pace.is_over:
            raise InvalidPattern("The pattern takes too long for all transactional ids; use a simpler one.")
    return found


def producer_code(error: GoQueueError, knows_fenced: bool) -> int:
    """Producers have older words for some things than administrators."""
    if isinstance(error, ProducerFenced) and not knows_fenced:
        return INVALID_PRODUCER_EPOCH
    if isinstance(error, UnknownTransaction):
        return INVALID_PRODUCER_ID_MAPPING
    if isinstance(error, UnknownGroup | StaleMemberEpoch):  # which producers know no words for
        return code_of(IllegalGeneration(error.message))
    return coordinator_code(error)


def _commit(call: KafkaCall, request: committing.TxnOffsetCommitRequest, offsets: list[OffsetCommit]) -> CommitRequest:
    if call.version < _GENERATIONS_FROM:
        return CommitRequest(request.group_id, "", -1, None, offsets)
    return CommitRequest(request.group_id, request.member_id, request.generation_id, request.group_instance_id, offsets)


def _by_topic(partitions: Iterable[tuple[str, int]]) -> Iterable[describing.TopicData]:
    for topic, found in groupby(partitions, key=lambda one: one[0]):
        yield describing.TopicData(topic=topic, partitions=[number for _, number in found])
