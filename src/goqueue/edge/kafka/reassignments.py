"""Reassignments as Kafka's tools ask for them. Shards move whole: all partitions of one have to be named, and alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from goqueue.api.cluster import MoveIn
from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError, InvalidField, MoveRefused, UnknownNode
from goqueue.base.ids import TopicPartition
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import code_of
from goqueue.service.front import Front
from goqueue.service.reassignment import Reassignments
from goqueue.service.topics import Topics
from goqueue.wire.codes import INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS, NONE
from goqueue.wire.messages import alter_partition_reassignments as altering
from goqueue.wire.messages import list_partition_reassignments as listing

_Target = tuple[int, ...] | None  # None turns a move back


class _Told(NamedTuple):
    """What a partition is answered with."""

    code: int = NONE
    message: str | None = None


class ReassignmentHandler:
    def __init__(self, moves: Front[Reassignments], topics: Front[Topics]) -> None:
        self._moves = moves
        self._topics = topics

    # --- begin and cancel ------------------------------------------------------------------------------------

    async def alter(
        self, call: KafkaCall, request: altering.AlterPartitionReassignmentsRequest
    ) -> altering.AlterPartitionReassignmentsResponse:
        try:
            self._moves.by(call.caller).check_change()
        except GoQueueError as error:
            return altering.AlterPartitionReassignmentsResponse(error_code=code_of(error), error_message=error.message)
        asked: dict[TopicPartition, _Target] = {
            TopicPartition(topic.name, one.partition_index): None if one.replicas is None else tuple(one.replicas)
            for topic in request.topics
            for one in topic.partitions
        }
        told = await self._altered(call.caller, asked)
        responses = [
            altering.ReassignableTopicResponse(
                topic.name,
                [_answer(one.partition_index, told, topic.name) for one in topic.partitions],
            )
            for topic in request.topics
        ]
        return altering.AlterPartitionReassignmentsResponse(error_message=None, responses=responses)

    async def _altered(self, caller: Caller, asked: Mapping[TopicPartition, _Target]) -> dict[TopicPartition, _Told]:
        told: dict[TopicPartition, _Told] = {}
        by_shard: dict[int, list[TopicPartition]] = defaultdict(list)
        for at in asked:
            try:
                topic = self._topics.by(caller).require_users(at.topic)
                topic.partition(at.partition)
                by_shard[topic.record.shard_of(at.partition)].append(at)
            except GoQueueError as error:
                told[at] = _Told(code_of(error), error.message)
        members, still = self._members(caller), await self._still(caller, by_shard, set(asked.values()))
        for shard, places in by_shard.items():
            some = {at: asked[at] for at in places}
            if shard in still and set(some.values()) == {None}:
                answer = _Told(NO_REASSIGNMENT_IN_PROGRESS, f"Shard {shard} does not move.")
            else:
                answer = await self._move(caller, shard, members[shard], some)
            told |= dict.fromkeys(places, answer)
        return told

    async def _still(self, caller: Caller, shards: Iterable[int], targets: Set[_Target]) -> set[int]:
        """Those that do not move, if a move is to be turned back: nothing has to be named whole for that answer."""
        if None not in targets:
            return set()
        return set(shards) - {one.shard for one in await self._moves.by(caller).moves()}

    async def _move(
        self, caller: Caller, shard: int, members: Sequence[TopicPartition], asked: Mapping[TopicPartition, _Target]
    ) -> _Told:
        targets = set(asked.values())
        if len(targets) > 1 or len(asked) < len(members):
            return _Told(INVALID_REPLICA_ASSIGNMENT, _why(shard, members))
        (target,) = targets
        moves = self._moves.by(caller)
        try:
            if target is not None:
                await moves.begin(MoveIn(shards={shard: list(target)}))
            elif not await moves.cancel([shard]):
                return _Told(NO_REASSIGNMENT_IN_PROGRESS, f"Shard {shard} does not move.")
        except (MoveRefused, UnknownNode, InvalidField) as error:
            return _Told(INVALID_REPLICA_ASSIGNMENT, error.message)
        except GoQueueError as error:
            return _Told(code_of(error), error.message)
        return _Told()

    def _members(self, caller: Caller) -> Mapping[int, Sequence[TopicPartition]]:
        """The partitions of each shard that are not the broker's own."""
        found: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic in self._topics.by(caller).everything():
            if not topic.is_internal:
                for number in range(len(topic.partitions)):
                    found[topic.record.shard_of(number)].append(TopicPartition(topic.name, number))
        return found

    # --- list ------------------------------------------------------------------------------------------------

    async def list(
        self, call: KafkaCall, request: listing.ListPartitionReassignmentsRequest
    ) -> listing.ListPartitionReassignmentsResponse:
        try:
            moving = {one.shard: one for one in await self._moves.by(call.caller).moves()}
        except GoQueueError as error:
            return listing.ListPartitionReassignmentsResponse(error_code=code_of(error), error_message=error.message)
        topics: dict[str, list[listing.OngoingPartitionReassignment]] = defaultdict(list)
        members = self._members(call.caller) if moving else {}
        for shard, one in moving.items():
            held = [*one.after, *(node for node in one.before if node not in one.after)]
            adding = [node for node in one.after if node not in one.before]
            removing = [node for node in one.before if node not in one.after]
            for at in _chosen(members.get(shard, ()), request):
                topics[at.topic].append(listing.OngoingPartitionReassignment(at.partition, held, adding, removing))
        found = [listing.OngoingTopicReassignment(name, places) for name, places in topics.items()]
        return listing.ListPartitionReassignmentsResponse(error_message=None, topics=found)


def _chosen(
    members: Sequence[TopicPartition], request: listing.ListPartitionReassignmentsRequest
) -> Iterator[TopicPartition]:
    if request.topics is None:
        yield from members
        return
    asked = {TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
    yield from (at for at in members if at in asked)


def _answer(partition: int, told: Mapping[TopicPartition, _Told], topic: str) -> altering.ReassignablePartitionResponse:
    found = told[TopicPartition(topic, partition)]
    return altering.ReassignablePartitionResponse(partition, found.code, found.message)


def _why(shard: int, members: Sequence[TopicPartition]) -> str:
    named = ", ".join(f"{at.topic}-{at.partition}" for at in members[:20])
    more = f" and {len(members) - 20} more" if len(members) > 20 else ""
    return (
        f"The partition lies in shard {shard}, which moves whole: name all of its partitions with the same replicas "
        f"({named}{more}), or use `goqueue cluster move {shard}`."
    )
