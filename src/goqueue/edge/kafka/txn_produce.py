"""Produce in a transaction as newer clients do it (`transaction.version` 2, KIP-890): the first batch for a partition
makes the partition part of the transaction, without a request of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator
from typing import Final, Protocol

from goqueue.base.access import AclOperation, ResourceKind
from goqueue.base.errors import AccessDenied, GoQueueError, NotLeader, NotLoaded, PeerLost
from goqueue.base.ids import TopicPartition
from goqueue.edge.kafka.calls import Exclusive, KafkaCall
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.operations import Rights
from goqueue.edge.kafka.transactions import producer_code
from goqueue.format.batch import read_header
from goqueue.service.front import Front
from goqueue.service.topics import Topics
from goqueue.service.transactions import TransactionVerbs
from goqueue.wire.codes import NOT_ENOUGH_REPLICAS
from goqueue.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ADDS_FROM: Final = 12  # the version of Produce that says so
Producer = tuple[int, int]  # id and epoch
_ELSEWHERE: Final = (NotLeader, NotLoaded, PeerLost)  # of what a coordinator says


class ProduceApi(Protocol):
    def produce(
        self, call: KafkaCall, request: ProduceRequest
    ) -> ProduceResponse | Awaitable[ProduceResponse] | None: ...


class TransactionalProduce:
    def __init__(
        self,
        inner: ProduceApi,
        transactions: Front[TransactionVerbs],
        topics: Front[Topics],
        names: TopicNames,
        rights: Rights,
    ) -> None:
        self._rights = rights
        self._inner = inner
        self._transactions = transactions
        self._topics = topics
        self._names = names
        self._adding: Counter[str] = Counter()  # requests that wait until their partitions are added
        self._turns: dict[str, asyncio.Lock] = {}

    def produce(self, call: KafkaCall, request: ProduceRequest) -> ProduceResponse | Awaitable[ProduceResponse] | None:
        name = request.transactional_id
        if name is None:
            return self._inner.produce(call, request)
        try:
            self._rights.check(call.caller, AclOperation.WRITE, ResourceKind.TRANSACTIONAL_ID, name)
        except AccessDenied as error:
            return _refused(request, error)
        if call.version < ADDS_FROM:
            return self._inner.produce(call, request)
        missing = self._missing(call, request)
        # A request behind one that waits waits too, so that the batches of a producer stay in order.
        if not missing and not self._adding[name]:
            return self._inner.produce(call, request)
        return self._later(call, request, name, missing)

    def _later(
        self, call: KafkaCall, request: ProduceRequest, name: str, missing: dict[Producer, list[TopicPartition]]
    ) -> Awaitable[ProduceResponse]:
        self._adding[name] += 1
        task = asyncio.ensure_future(self._add_and_produce(call, request, name, missing))
        task.add_done_callback(lambda done: self._done(name))
        return task

    def _done(self, name: str) -> None:
        self._adding[name] -= 1
        if not self._adding[name]:
            del self._adding[name]
            self._turns.pop(name, None)

    def _missing(self, call: KafkaCall, request: ProduceRequest) -> dict[Producer, list[TopicPartition]]:
        found: dict[Producer, list[TopicPartition]] = {}
        for at, producer in self._written(call, request):
            if not self._is_added(call, at, producer):
                found.setdefault(producer, []).append(at)
        return found

    def _is_added(self, call: KafkaCall, at: TopicPartition, producer: Producer) -> bool:
        """As the coordinator knows, or as the partition does: its coordinator may be at another node."""
        if self._transactions.by(call.caller).writes_to(producer[0], at, producer[1]):
            return True
        topic = self._topics.by(call.caller).find(at.topic)
        return topic is not None and topic.partition(at.partition).producers.is_writing(*producer)

    def _written(self, call: KafkaCall, request: ProduceRequest) -> Iterator[tuple[TopicPartition, Producer]]:
        """What is wrong with the others is told by whoever stores them."""
        for topic in request.topic_data:
            name = topic.name if call.version < 13 else self._names.by_id(topic.topic_id, call.caller)
            known = None if name is None else self._topics.by(call.caller).find(name)
            if known is None or known.is_internal or not self._may_write(call, known.name):
                continue
            for data in topic.partition_data:
                if data.records is None or not 0 <= data.index < len(known.partitions):
                    continue
                try:
                    header = read_header(data.records)
                except GoQueueError:
                    continue
                if header.is_transactional:
                    yield TopicPartition(known.name, data.index), (header.producer_id, header.producer_epoch)

    def _may_write(self, call: KafkaCall, topic: str) -> bool:
        return self._rights.allows(call.caller, AclOperation.WRITE, ResourceKind.TOPIC, topic)

    async def _add_and_produce(
        self,
        call: KafkaCall,
        request: ProduceRequest,
        transactional_id: str,
        missing: dict[Producer, list[TopicPartition]],
    ) -> ProduceResponse:
        try:
            async with self._turns.setdefault(transactional_id, asyncio.Lock()):
                for (producer_id, epoch), partitions in missing.items():
                    await self._transactions.by(call.caller).add_partitions(
                        transactional_id, producer_id, epoch, partitions
                    )
                if not missing:
                    await self._transactions.by(call.caller).turn(transactional_id)
                answer = self._inner.produce(call, request)
                if isinstance(answer, Exclusive):
                    answer = await answer
        except GoQueueError as error:
            self._remember(call, request, error)
            return _refused(request, error)
        if answer is None:
            return ProduceResponse()
        return answer if isinstance(answer, ProduceResponse) else await answer

    def _remember(self, call: KafkaCall, request: ProduceRequest, error: GoQueueError) -> None:
        """Batches behind these are not stored before they came again: who is new to a partition may begin anywhere."""
        told = NotLoaded(error.message) if isinstance(error, _ELSEWHERE) else error
        for topic in request.topic_data:
            name = topic.name if call.version < 13 else self._names.by_id(topic.topic_id, call.caller)
            for data in topic.partition_data:
                call.peer.refusals.told(TopicPartition(name or "", data.index), data.records or b"", told)


def _refused(request: ProduceRequest, error: GoQueueError) -> ProduceResponse:
    # What a coordinator at another node cannot do now is no reason to look for another leader of the partition.
    code = NOT_ENOUGH_REPLICAS if isinstance(error, _ELSEWHERE) else producer_code(error, knows_fenced=False)
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1, error_message=error.message)
                for data in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=topics)
