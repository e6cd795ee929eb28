"""Produce: encoded batches into logs, as they come."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from goqueue.base.commands import Acks, PublishBatch
from goqueue.base.errors import CorruptBatch, GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.edge.kafka.calls import CALLER, Call
from goqueue.edge.kafka.errors import INVALID_REQUEST, INVALID_REQUIRED_ACKS, code_of
from goqueue.edge.kafka.names import TopicNames
from goqueue.service.publish import Publish
from goqueue.wire.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ACKS: Final = {0: Acks.NONE, 1: Acks.LEADER, -1: Acks.ALL}


class ProduceHandler:
    def __init__(self, publish: Publish, names: TopicNames) -> None:
        self._publish = publish
        self._names = names

    def produce(self, call: Call, request: ProduceRequest) -> ProduceResponse | Awaitable[ProduceResponse] | None:
        """Everything is appended before this returns; the answer may have to wait for the disk."""
        acks = ACKS.get(request.acks)
        stored: list[TopicPartition] = []
        topics: list[TopicProduceResponse] = []
        for topic in request.topic_data:
            name = topic.name if call.version < 13 else self._names.by_id(topic.topic_id)
            answers: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                if acks is None or request.transactional_id is not None:
                    code = INVALID_REQUIRED_ACKS if acks is None else INVALID_REQUEST
                    answers.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1))
                else:
                    answers.append(self._append(name, data, acks, stored))
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        response = ProduceResponse(responses=topics)
        if acks is Acks.NONE:
            return None
        waiting = [at for at in stored if not self._publish.is_settled(at)]
        return self._settled(response, waiting) if waiting else response

    def _append(
        self, name: str | None, data: PartitionProduceData, acks: Acks, stored: list[TopicPartition]
    ) -> PartitionProduceResponse:
        at = TopicPartition(name or "", data.index)
        try:
            if name is None:
                raise self._names.unknown_id()
            if data.records is None:
                raise CorruptBatch("A produce request without records.")
            appended = self._publish.append(PublishBatch(at, data.records, acks, CALLER))
        except GoQueueError as error:
            return PartitionProduceResponse(
                index=data.index, error_code=code_of(error), base_offset=-1, error_message=error.message
            )
        stored.append(at)
        return PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=appended.start_offset,
        )

    async def _settled(self, response: ProduceResponse, waiting: list[TopicPartition]) -> ProduceResponse:
        """Where making it safe fails, nothing is promised: the partition's answer becomes the error."""
        failed: dict[TopicPartition, GoQueueError] = {}
        for at in waiting:
            try:
                await self._publish.settle(at)
            except GoQueueError as error:
                failed[at] = error
        return response if not failed else _with_failures(response, failed)


def _with_failures(response: ProduceResponse, failed: dict[TopicPartition, GoQueueError]) -> ProduceResponse:
    topics: list[TopicProduceResponse] = []
    for topic in response.responses:
        answers: list[PartitionProduceResponse] = []
        for answer in topic.partition_responses:
            error = failed.get(TopicPartition(topic.name, answer.index))
            if error is not None:
                answer = PartitionProduceResponse(
                    index=answer.index, error_code=code_of(error), base_offset=-1, error_message=error.message
                )
            answers.append(answer)
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    return ProduceResponse(responses=topics)
