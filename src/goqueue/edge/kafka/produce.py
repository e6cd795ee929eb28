"""Produce: encoded batches into logs, as they come."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from goqueue.base.commands import Acks, PublishBatch
from goqueue.base.errors import GoQueueError, InvalidBatch
from goqueue.base.ids import TopicPartition
from goqueue.core.txn.errors import ProducerFenced
from goqueue.edge.kafka.calls import CALLER, Call
from goqueue.edge.kafka.errors import INVALID_PRODUCER_EPOCH, INVALID_REQUIRED_ACKS, code_of
from goqueue.edge.kafka.names import TopicNames
from goqueue.service.publish import Publish
from goqueue.wire.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

# Places in the request (topic, partition): new clients give a topic's id and no name.
Places = dict[tuple[int, int], TopicPartition]

ACKS: Final = {0: Acks.NONE, 1: Acks.LEADER, -1: Acks.ALL}


class ProduceHandler:
    def __init__(self, publish: Publish, names: TopicNames) -> None:
        self._publish = publish
        self._names = names

    def produce(self, call: Call, request: ProduceRequest) -> ProduceResponse | Awaitable[ProduceResponse] | None:
        """Everything is appended before this returns; the answer may have to wait for the disk."""
        acks = ACKS.get(request.acks)
        stored: Places = {}
        topics: list[TopicProduceResponse] = []
        for at, topic in enumerate(request.topic_data):
            name = topic.name if call.version < 13 else self._names.by_id(topic.topic_id)
            answers: list[PartitionProduceResponse] = []
            for place, data in enumerate(topic.partition_data):
                if acks is None:
                    code = INVALID_REQUIRED_ACKS
                    answers.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1))
                else:
                    answers.append(self._append(name, data, acks, stored, (at, place)))
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        response = ProduceResponse(responses=topics)
        if acks is Acks.NONE:
            return None
        waiting = {place: one for place, one in stored.items() if not self._publish.is_settled(one)}
        return self._settled(response, waiting) if waiting else response

    def _append(
        self, name: str | None, data: PartitionProduceData, acks: Acks, stored: Places, place: tuple[int, int]
    ) -> PartitionProduceResponse:
        at = TopicPartition(name or "", data.index)
        try:
            if name is None:
                raise self._names.unknown_id()
            if data.records is None:
                raise InvalidBatch("A produce request without records.")
            appended = self._publish.append(PublishBatch(at, data.records, acks, CALLER))
        except ProducerFenced as error:  # on this API Kafka has an older word for it
            return PartitionProduceResponse(
                index=data.index, error_code=INVALID_PRODUCER_EPOCH, base_offset=-1, error_message=error.message
            )
        except GoQueueError as error:
            return PartitionProduceResponse(
                index=data.index,
                error_code=code_of(error),
                base_offset=-1,
                record_errors=_record_errors(error),
                error_message=error.message,
            )
        stored[place] = at
        return PartitionProduceResponse(
            index=data.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=appended.start_offset,
        )

    async def _settled(self, response: ProduceResponse, waiting: Places) -> ProduceResponse:
        """Where making it safe fails, nothing is promised: the partition's answer becomes the error."""
        failed: dict[tuple[int, int], GoQueueError] = {}
        for place, at in waiting.items():
            try:
                await self._publish.settle(at)
            except GoQueueError as error:
                failed[place] = error
        return response if not failed else _with_failures(response, failed)


def _record_errors(error: GoQueueError) -> list[BatchIndexAndErrorMessage]:
    """Which records of a batch are at fault; the whole batch is refused because of them."""
    failures: Any = error.detail.get("failures", [])
    return [BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=why) for place, why in failures]


def _with_failures(response: ProduceResponse, failed: dict[tuple[int, int], GoQueueError]) -> ProduceResponse:
    topics: list[TopicProduceResponse] = []
    for at, topic in enumerate(response.responses):
        answers: list[PartitionProduceResponse] = []
        for place, answer in enumerate(topic.partition_responses):
            error = failed.get((at, place))
            if error is not None:
                answer = PartitionProduceResponse(
                    index=answer.index, error_code=code_of(error), base_offset=-1, error_message=error.message
                )
            answers.append(answer)
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    return ProduceResponse(responses=topics)
