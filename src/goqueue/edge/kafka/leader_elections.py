"""Leaders elected because somebody asks for it. A leader is that of a whole shard: its other partitions follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import code_of
from goqueue.service.front import Front
from goqueue.service.reassignment import Reassignments
from goqueue.service.topics import Topics
from goqueue.wire.codes import ELECTION_NOT_NEEDED, INVALID_REQUEST, NONE
from goqueue.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED, _UNCLEAN = range(2)


class _Told(NamedTuple):
    code: int = NONE
    message: str | None = None


class LeaderElectionHandler:
    def __init__(self, moves: Front[Reassignments], topics: Front[Topics]) -> None:
        self._moves = moves
        self._topics = topics

    async def elect(self, call: KafkaCall, request: ElectLeadersRequest) -> ElectLeadersResponse:
        """Without names all partitions are meant, and only those told of that needed it."""
        try:
            self._moves.by(call.caller).check_change()
        except GoQueueError as error:
            return ElectLeadersResponse(error_code=code_of(error))
        if request.election_type not in (_PREFERRED, _UNCLEAN):
            return ElectLeadersResponse(error_code=INVALID_REQUEST)
        is_all = request.topic_partitions is None
        asked = [
            TopicPartition(one.topic, number) for one in request.topic_partitions or () for number in one.partitions
        ]
        told = await self._elected(call.caller, self._all(call.caller) if is_all else asked, request.election_type)
        chosen = {at: one for at, one in told.items() if not is_all or one.code != ELECTION_NOT_NEEDED}
        return ElectLeadersResponse(replica_election_results=_results(chosen))

    async def _elected(
        self, caller: Caller, places: Iterable[TopicPartition], election: int
    ) -> dict[TopicPartition, _Told]:
        told: dict[TopicPartition, _Told] = {}
        shards: dict[int, _Told] = {}
        for at in places:
            try:
                topic = self._topics.by(caller).require_users(at.topic)
                topic.partition(at.partition)
            except GoQueueError as error:
                told[at] = _Told(code_of(error), error.message)
                continue
            shard = topic.record.shard_of(at.partition)
            if shard not in shards:
                shards[shard] = await self._elect(caller, shard, election)
            told[at] = shards[shard]
        return told

    async def _elect(self, caller: Caller, shard: int, election: int) -> _Told:
        try:
            await self._moves.by(caller).elect(shard, election == _UNCLEAN)
        except GoQueueError as error:
            return _Told(code_of(error), error.message)
        return _Told()

    def _all(self, caller: Caller) -> list[TopicPartition]:
        found = [topic for topic in self._topics.by(caller).everything() if not topic.is_internal]
        return [TopicPartition(topic.name, number) for topic in found for number in range(len(topic.partitions))]


def _results(told: dict[TopicPartition, _Told]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[PartitionResult]] = defaultdict(list)
    for at, one in told.items():
        topics[at.topic].append(PartitionResult(at.partition, one.code, one.message))
    return [ReplicaElectionResult(name, results) for name, results in topics.items()]
