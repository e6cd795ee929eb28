"""Idempotent and transactional producers: their ids, and who they are."""

from __future__ import annotations

from goqueue.base.access import AclOperation, ResourceKind
from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError
from goqueue.core.txn.epochs import NEW
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import partition_code
from goqueue.edge.kafka.operations import Rights
from goqueue.edge.kafka.transactions import producer_code
from goqueue.service.front import Front
from goqueue.service.producers import ProducerIds
from goqueue.service.topics import Topics
from goqueue.service.transactions import TransactionVerbs
from goqueue.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from goqueue.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_FENCED_FROM = 4  # the version from which clients know PRODUCER_FENCED
_KNOWS_ITSELF_FROM = 3  # the version from which a producer that begins again says who it was


class ProducerHandler:
    def __init__(
        self, ids: Front[ProducerIds], transactions: Front[TransactionVerbs], topics: Front[Topics], rights: Rights
    ) -> None:
        self._rights = rights
        self._ids = ids
        self._transactions = transactions
        self._topics = topics

    async def init_producer_id(self, call: KafkaCall, request: InitProducerIdRequest) -> InitProducerIdResponse:
        try:
            if request.transactional_id is not None:
                state = await self._transactions.by(call.caller).init(
                    request.transactional_id,
                    request.transaction_timeout_ms,
                    request.producer_id if call.version >= _KNOWS_ITSELF_FROM else NEW,
                    request.producer_epoch if call.version >= _KNOWS_ITSELF_FROM else NEW,
                )
                return InitProducerIdResponse(producer_id=state.producer_id, producer_epoch=state.epoch)
            return InitProducerIdResponse(producer_id=await self._ids.by(call.caller).next_id(), producer_epoch=0)
        except GoQueueError as error:
            code = producer_code(error, call.version >= _FENCED_FROM)
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)

    def describe(self, call: KafkaCall, request: DescribeProducersRequest) -> DescribeProducersResponse:
        topics = [
            TopicResponse(
                name=topic.name,
                partitions=[
                    self._partition(call.caller, topic.name, index) for index in dict.fromkeys(topic.partition_indexes)
                ],
            )
            for topic in request.topics
        ]
        return DescribeProducersResponse(topics=topics)

    def _partition(self, caller: Caller, topic: str, index: int) -> PartitionResponse:
        try:
            self._rights.check(caller, AclOperation.READ, ResourceKind.TOPIC, topic)
            partition = self._topics.by(caller).require(topic).partition(index)
            partition.check_led()
        except GoQueueError as error:
            return PartitionResponse(
                partition_index=index, error_code=partition_code(error), error_message=error.message
            )
        opened = partition.producers.open_transactions()
        active = [
            ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.seen_ms,
                coordinator_epoch=0 if one.producer_id in opened else -1,
                current_txn_start_offset=opened.get(one.producer_id, -1),
            )
            for one in partition.producers.all()
        ]
        return PartitionResponse(partition_index=index, active_producers=active)
