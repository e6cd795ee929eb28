"""Produce: encoded batches into logs, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from math import ceil
from typing import Any, Final

from goqueue.base.commands import Acks, Appended, PublishBatch
from goqueue.base.errors import GoQueueError, InvalidBatch, NotLoaded, PeerLost, TakingOver
from goqueue.base.ids import TopicPartition
from goqueue.core.txn.errors import ProducerFenced
from goqueue.edge.kafka.brokers import MOVED, KafkaBrokers
from goqueue.edge.kafka.calls import Exclusive, KafkaCall
from goqueue.edge.kafka.errors import code_of
from goqueue.edge.kafka.names import TopicNames
from goqueue.format.batch import HEADER_BYTES
from goqueue.service.front import Front
from goqueue.service.hooks import TooMuchHere
from goqueue.service.publish import Publish
from goqueue.wire.codes import INVALID_PRODUCER_EPOCH, INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS
from goqueue.wire.errors import WireError
from goqueue.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

# Places in the request (topic, partition): new clients give a topic's id and no name.
Place = tuple[int, int]
Places = dict[Place, Appended]
Wanted = tuple[Acks | None, int]  # who has to have it, and for how many milliseconds they are waited for

ACKS: Final = {0: Acks.NONE, 1: Acks.LEADER, -1: Acks.ALL}
# Nothing was stored, because a coordinator could not be asked: the word that every producer tries again after.
_NOT_ASKED: Final = (NotLoaded, PeerLost)


class ProduceHandler:
    def __init__(self, publish: Front[Publish], names: TopicNames, brokers: KafkaBrokers) -> None:
        self._publish = publish
        self._names = names
        self._brokers = brokers

    def produce(self, call: KafkaCall, request: ProduceRequest) -> ProduceResponse | Awaitable[ProduceResponse] | None:
        """Everything is appended before this returns; the answer may have to wait for the disk.

        Large batches whose records have to be looked at, and those for a partition that this node is about to serve,
        are appended later; no other request is begun meanwhile.
        """
        acks = ACKS.get(request.acks)
        publish = self._publish.by(call.caller)
        stored: Places = {}
        large: dict[Place, PublishBatch] = {}
        topics: list[TopicProduceResponse] = []
        for at, topic in enumerate(request.topic_data):
            name = topic.name if call.version < 13 else self._names.by_id(topic.topic_id, call.caller)
            answers: list[PartitionProduceResponse] = []
            for place, data in enumerate(topic.partition_data):
                if acks is None:
                    code = INVALID_REQUIRED_ACKS
                    answers.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1))
                else:
                    answers.append(self._append(publish, call, name, data, acks, stored, large, (at, place)))
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        response = ProduceResponse(responses=topics)
        if large:
            return Exclusive(self._append_large(call, request, response, stored, large))
        if acks is Acks.NONE:
            _end_if_refused(response)
            return None
        waiting = {place: one for place, one in stored.items() if not publish.is_durable(one.at, acks or Acks.ALL)}
        if waiting:
            heads = _heads(request, waiting)
            return self._settled(call, response, waiting, heads, (acks, request.timeout_ms))
        is_whole = len(stored) == sum([len(topic.partition_data) for topic in request.topic_data])
        return response if is_whole else self._with_endpoints(call, response)

    def _append(
        self,
        publish: Publish,
        call: KafkaCall,
        name: str | None,
        data: PartitionProduceData,
        acks: Acks,
        stored: Places,
        large: dict[Place, PublishBatch],
        place: Place,
    ) -> PartitionProduceResponse:
        at = TopicPartition(name or "", data.index)
        try:
            if name is None:
                raise self._names.unknown_id()
            if data.records is None:
                raise InvalidBatch("A produce request without records.")
            if (before := call.peer.refusals.before(at, data.records)) is not None:
                return self._failed(at, before)
            command = PublishBatch(at, data.records, acks, call.caller)
            appended = publish.append(command)
        except (TooMuchHere, TakingOver):
            large[place] = command
            return PartitionProduceResponse(index=data.index)
        except GoQueueError as error:
            return self._failed(at, call.peer.refusals.told(at, data.records or b"", error))
        call.peer.refusals.stored(at, data.records)
        stored[place] = appended
        return _stored(appended)

    async def _append_large(
        self,
        call: KafkaCall,
        request: ProduceRequest,
        response: ProduceResponse,
        stored: Places,
        large: dict[Place, PublishBatch],
    ) -> ProduceResponse | None:
        acks = ACKS[request.acks]
        answers: dict[Place, PartitionProduceResponse] = {}
        for place, command in large.items():
            try:
                stored[place] = appended = await self._publish.by(call.caller).append_any(command)
                call.peer.refusals.stored(command.at, command.batch)
                answers[place] = _stored(appended)
            except GoQueueError as error:
                told = call.peer.refusals.told(command.at, command.batch, error)
                answers[place] = self._failed(command.at, told)
        if acks is Acks.NONE:
            _end_if_refused(_with(response, answers))
            return None
        heads = _heads(request, stored)
        return await self._settled(call, _with(response, answers), stored, heads, (acks, request.timeout_ms))

    async def _settled(
        self,
        call: KafkaCall,
        response: ProduceResponse,
        waiting: Places,
        heads: Mapping[Place, bytes],
        wanted: Wanted,
    ) -> ProduceResponse:
        """Where making it safe fails, nothing is promised: the partition's answer becomes the error. Replicas are
        waited for as long as the client said, all together."""
        failed: dict[Place, GoQueueError] = {}
        acks, wait_ms = wanted
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        for place, one in waiting.items():
            left_ms = max(0, ceil((deadline - loop.time()) * 1000))
            try:
                await self._publish.by(call.caller).wait_durable(one.at, acks or Acks.ALL, left_ms, one.epoch)
            except GoQueueError as error:
                failed[place] = error
                call.peer.refusals.unsettled(one.at, heads[place], error)
        told = {place: self._failed(waiting[place].at, error) for place, error in failed.items()}
        return self._with_endpoints(call, response if not told else _with(response, told))

    def _failed(self, at: TopicPartition, error: GoQueueError) -> PartitionProduceResponse:
        # A fenced producer has an older word on this API.
        code = INVALID_PRODUCER_EPOCH if isinstance(error, ProducerFenced) else code_of(error)
        if isinstance(error, _NOT_ASKED):
            code = NOT_ENOUGH_REPLICAS
        leads = self._brokers.leader_and_epoch(at) if code in MOVED else (-1, -1)
        return PartitionProduceResponse(
            index=at.partition,
            error_code=code,
            base_offset=-1,
            record_errors=_record_errors(error),
            error_message=error.message,
            current_leader=LeaderIdAndEpoch(*leads),
        )

    def _with_endpoints(self, call: KafkaCall, response: ProduceResponse) -> ProduceResponse:
        """Where the leaders are that the answers name (KIP-951)."""
        named = {one.current_leader.leader_id for topic in response.responses for one in topic.partition_responses}
        if named <= {-1}:
            return response
        found = [NodeEndpoint(one.node, one.host, one.port, one.rack) for one in self._brokers.endpoints(named, call)]
        return ProduceResponse(responses=response.responses, node_endpoints=found)


def _end_if_refused(response: ProduceResponse) -> None:
    """Who asked for no answer hears of what was refused by the end of its connection: it looks for the leaders again,
    instead of sending to a node that stores nothing."""
    answers = [one for topic in response.responses for one in topic.partition_responses]
    if refused := next((one for one in answers if one.error_code), None):
        raise WireError(f"a produce that has no answer was refused: {refused.error_message}")


def _stored(appended: Appended) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=appended.at.partition,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=appended.start_offset,
    )


def _heads(request: ProduceRequest, places: Iterable[Place]) -> dict[Place, bytes]:
    """Who wrote these batches, without their records, which nobody has to hold any longer."""
    found = {place: request.topic_data[place[0]].partition_data[place[1]].records or b"" for place in places}
    return {place: bytes(records[:HEADER_BYTES]) for place, records in found.items()}


def _record_errors(error: GoQueueError) -> list[BatchIndexAndErrorMessage]:
    """Which records of a batch are at fault; the whole batch is refused because of them."""
    failures: Any = error.detail.get("failures", [])
    return [BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=cause) for place, cause in failures]


def _with(response: ProduceResponse, answers: Mapping[Place, PartitionProduceResponse]) -> ProduceResponse:
    """The response with these answers in their places."""
    topics: list[TopicProduceResponse] = []
    for at, topic in enumerate(response.responses):
        given = [answers.get((at, place), answer) for place, answer in enumerate(topic.partition_responses)]
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=given))
    return ProduceResponse(responses=topics)
