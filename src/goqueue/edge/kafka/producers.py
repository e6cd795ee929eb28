"""Idempotent producers: their ids, and who they are."""

from __future__ import annotations

from goqueue.base.errors import GoQueueError
from goqueue.edge.kafka.calls import Call
from goqueue.edge.kafka.errors import UNSUPPORTED_VERSION, code_of
from goqueue.service.producers import ProducerIds
from goqueue.service.topics import Topics
from goqueue.wire.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from goqueue.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class ProducerHandler:
    def __init__(self, ids: ProducerIds, topics: Topics) -> None:
        self._ids = ids
        self._topics = topics

    async def init_producer_id(self, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
        if request.transactional_id is not None:
            return InitProducerIdResponse(error_code=UNSUPPORTED_VERSION, producer_id=-1, producer_epoch=-1)
        try:
            return InitProducerIdResponse(producer_id=await self._ids.next_id(), producer_epoch=0)
        except GoQueueError as error:
            return InitProducerIdResponse(error_code=code_of(error), producer_id=-1, producer_epoch=-1)

    def describe(self, call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
        topics = [
            TopicResponse(
                name=topic.name, partitions=[self._partition(topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
        return DescribeProducersResponse(topics=topics)

    def _partition(self, topic: str, index: int) -> PartitionResponse:
        try:
            partition = self._topics.require(topic).partition(index)
        except GoQueueError as error:
            return PartitionResponse(partition_index=index, error_code=code_of(error), error_message=error.message)
        active = [
            ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.seen_ms,
                coordinator_epoch=-1,
            )
            for one in partition.dedupe.producers()
        ]
        return PartitionResponse(partition_index=index, active_producers=active)
