"""Committed offsets for Kafka clients: commit, fetch, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from goqueue.base.access import AclOperation, ResourceKind
from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError, NotLoaded
from goqueue.base.ids import TopicPartition
from goqueue.core.groups.errors import IllegalGeneration, UnknownGroup
from goqueue.core.groups.records import OffsetCommitted
from goqueue.core.groups.replies import OffsetsReply, Result
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import coordinator_code
from goqueue.edge.kafka.groups import when_known
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.operations import Rights
from goqueue.service.front import Front
from goqueue.service.groups import Groups
from goqueue.service.topics import Topics
from goqueue.service.transactions import TransactionVerbs
from goqueue.wire.codes import (
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
)
from goqueue.wire.messages import offset_commit as committing
from goqueue.wire.messages import offset_delete as deleting
from goqueue.wire.messages import offset_fetch as fetching

Codes = dict[TopicPartition, int]
Unstable = Callable[[str], Awaitable[set[TopicPartition]]]
Moving = Mapping[str, set[TopicPartition] | GoQueueError]  # by group, or why that is not known


class OffsetHandler:
    def __init__(
        self,
        groups: Front[Groups],
        topics: Front[Topics],
        names: TopicNames,
        transactions: Front[TransactionVerbs],
        rights: Rights,
        unstable: Unstable | None = None,
    ) -> None:
        """`unstable` asks all nodes where open transactions are about to move a group, where there are several."""
        self._unstable_anywhere = unstable
        self._rights = rights
        self._groups = groups
        self._transactions = transactions
        self._topics = topics
        self._names = names

    # --- commit ----------------------------------------------------------------------------------------------

    def commit(
        self, call: KafkaCall, request: committing.OffsetCommitRequest
    ) -> committing.OffsetCommitResponse | Awaitable[committing.OffsetCommitResponse]:
        wanted: list[OffsetCommit] = []
        codes: Codes = {}
        for topic in request.topics:
            name = self._name(call, topic.topic_id, topic.name)
            for one in topic.partitions:
                at = TopicPartition(name or "", one.partition_index)
                if name and not self._may(call.caller, AclOperation.READ, name):
                    codes[at] = TOPIC_AUTHORIZATION_FAILED
                    continue
                if not self._exists(call.caller, at):
                    codes[at] = UNKNOWN_TOPIC_ID if name is None else UNKNOWN_TOPIC_OR_PARTITION
                    continue
                wanted.append(
                    OffsetCommit(
                        at.topic,
                        at.partition,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata or "",
                    )
                )
        asked = CommitRequest(
            request.group_id,
            request.member_id,
            request.generation_id_or_member_epoch,
            request.group_instance_id,
            wanted,
        )
        return when_known(
            lambda: self._groups.by(call.caller).commit(asked),
            lambda result: self._committed(call, request, codes | _codes(wanted, _in_words_of(call.version, result))),
        )

    def _committed(
        self, call: KafkaCall, request: committing.OffsetCommitRequest, codes: Codes
    ) -> committing.OffsetCommitResponse:
        topics: list[committing.OffsetCommitResponseTopic] = []
        for topic in request.topics:
            name = self._name(call, topic.topic_id, topic.name) or ""
            parts = [
                committing.OffsetCommitResponsePartition(
                    partition_index=one.partition_index,
                    error_code=codes.get(TopicPartition(name, one.partition_index), NONE),
                )
                for one in topic.partitions
            ]
            topics.append(
                committing.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts)
            )
        return committing.OffsetCommitResponse(topics=topics)

    def _name(self, call: KafkaCall, topic_id: bytes, name: str) -> str | None:
        return self._names.by_id(topic_id, call.caller) if call.version >= 10 else name

    def _may(self, caller: Caller, operation: AclOperation, topic: str) -> bool:
        return self._rights.allows(caller, operation, ResourceKind.TOPIC, topic)

    def _exists(self, caller: Caller, at: TopicPartition) -> bool:
        topic = self._topics.by(caller).find(at.topic)
        return topic is not None and 0 <= at.partition < len(topic.partitions)

    # --- fetch -----------------------------------------------------------------------------------------------

    def fetch(
        self, call: KafkaCall, request: fetching.OffsetFetchRequest
    ) -> fetching.OffsetFetchResponse | Awaitable[fetching.OffsetFetchResponse]:
        if not request.require_stable:
            return self._fetch(call, request, {group: set() for group in _groups(call, request)})
        if self._unstable_anywhere is not None:
            return self._fetch_later(call, request, self._unstable_anywhere)
        moving: dict[str, set[TopicPartition] | GoQueueError] = {}
        for group in _groups(call, request):
            try:
                moving[group] = self._transactions.by(call.caller).unstable(group)
            except GoQueueError as error:
                moving[group] = error
        return self._fetch(call, request, moving)

    async def _fetch_later(
        self, call: KafkaCall, request: fetching.OffsetFetchRequest, unstable: Unstable
    ) -> fetching.OffsetFetchResponse:
        moving: dict[str, set[TopicPartition] | GoQueueError] = {}
        for group in _groups(call, request):
            try:
                moving[group] = await unstable(group)
            except GoQueueError as error:
                moving[group] = NotLoaded(error.message)  # a coordinator of transactions; the group's own is here
        return self._fetch(call, request, moving)

    def _fetch(
        self, call: KafkaCall, request: fetching.OffsetFetchRequest, moving: Moving
    ) -> fetching.OffsetFetchResponse:
        if call.version >= 8:
            return fetching.OffsetFetchResponse(groups=[self._group(call, one, moving) for one in request.groups])
        try:
            return self._only_group(call, request, moving)
        except GoQueueError as error:
            return _of_none(request, coordinator_code(error))

    def _only_group(
        self, call: KafkaCall, request: fetching.OffsetFetchRequest, moving: Moving
    ) -> fetching.OffsetFetchResponse:
        unstable = _known(moving, request.group_id)
        asked = None if request.topics is None else [(one.name, one.partition_indexes) for one in request.topics]
        topics = [
            fetching.OffsetFetchResponseTopic(
                name=topic,
                partitions=[
                    fetching.OffsetFetchResponsePartition(
                        partition_index=one.partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        metadata=one.metadata,
                        error_code=code,
                    )
                    for one, code in self._stable(call.caller, topic, found, unstable)
                ],
            )
            for topic, found in self._found(call.caller, request.group_id, asked)
        ]
        return fetching.OffsetFetchResponse(topics=topics)

    def _group(
        self, call: KafkaCall, asked: fetching.OffsetFetchRequestGroup, moving: Moving
    ) -> fetching.OffsetFetchResponseGroup:
        try:
            return self._one_of_many(call, asked, moving)
        except GoQueueError as error:
            return fetching.OffsetFetchResponseGroup(group_id=asked.group_id, error_code=coordinator_code(error))

    def _one_of_many(
        self, call: KafkaCall, asked: fetching.OffsetFetchRequestGroup, moving: Moving
    ) -> fetching.OffsetFetchResponseGroup:
        unstable = _known(moving, asked.group_id)
        if asked.member_id is not None and asked.member_epoch >= 0:
            self._groups.by(call.caller).check_member(asked.group_id, asked.member_id, asked.member_epoch)
        wanted = None
        topics: list[fetching.OffsetFetchResponseTopics] = []
        if asked.topics is not None:
            wanted = []
            for topic in asked.topics:
                name = self._name(call, topic.topic_id, topic.name)
                if name is None:
                    topics.append(_unknown(topic))
                else:
                    wanted.append((name, topic.partition_indexes))
        for name, found in self._found(call.caller, asked.group_id, wanted):
            parts = [
                fetching.OffsetFetchResponsePartitions(
                    partition_index=one.partition,
                    committed_offset=one.offset,
                    committed_leader_epoch=one.leader_epoch,
                    metadata=one.metadata,
                    error_code=code,
                )
                for one, code in self._stable(call.caller, name, found, unstable)
            ]
            topics.append(
                fetching.OffsetFetchResponseTopics(name=name, topic_id=self._names.id_of(name), partitions=parts)
            )
        return fetching.OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)

    def _found(
        self, caller: Caller, group: str, wanted: Sequence[tuple[str, Sequence[int]]] | None
    ) -> Iterable[tuple[str, list[OffsetCommitted]]]:
        """By topic. What was never committed has offset -1."""
        known = self._groups.by(caller).offsets(group)
        if wanted is None:
            by_topic: dict[str, list[OffsetCommitted]] = {}
            for at in sorted(known):
                by_topic.setdefault(at.topic, []).append(known[at])
            return [one for one in by_topic.items() if self._may(caller, AclOperation.DESCRIBE, one[0])]
        return [
            (topic, [known.get(TopicPartition(topic, number)) or _nothing(group, topic, number) for number in numbers])
            for topic, numbers in wanted
        ]

    def _stable(
        self, caller: Caller, topic: str, found: Iterable[OffsetCommitted], unstable: set[TopicPartition]
    ) -> Iterable[tuple[OffsetCommitted, int]]:
        if self._may(caller, AclOperation.DESCRIBE, topic):
            return _stable(found, unstable)
        return [(_nothing(one.group, topic, one.partition), TOPIC_AUTHORIZATION_FAILED) for one in found]

    # --- delete ----------------------------------------------------------------------------------------------

    async def delete(self, call: KafkaCall, request: deleting.OffsetDeleteRequest) -> deleting.OffsetDeleteResponse:
        wanted = [
            TopicPartition(topic.name, one.partition_index)
            for topic in request.topics
            if self._may(call.caller, AclOperation.READ, topic.name)
            for one in topic.partitions
        ]
        try:
            results = await self._groups.by(call.caller).delete_offsets(request.group_id, wanted)
        except GoQueueError as error:
            return deleting.OffsetDeleteResponse(error_code=coordinator_code(error))
        codes = {
            TopicPartition(one.topic, one.partition): NONE if one.error is None else coordinator_code(one.error)
            for one in results
        }
        topics = [
            deleting.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    deleting.OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=self._delete_code(
                            call.caller, TopicPartition(topic.name, one.partition_index), codes
                        ),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return deleting.OffsetDeleteResponse(topics=topics)

    def _delete_code(self, caller: Caller, at: TopicPartition, codes: Codes) -> int:
        if not self._may(caller, AclOperation.READ, at.topic):
            return TOPIC_AUTHORIZATION_FAILED
        return codes.get(at, NONE) if self._exists(caller, at) else UNKNOWN_TOPIC_OR_PARTITION


def _groups(call: KafkaCall, request: fetching.OffsetFetchRequest) -> list[str]:
    return list(dict.fromkeys(one.group_id for one in request.groups)) if call.version >= 8 else [request.group_id]


def _known(moving: Moving, group: str) -> set[TopicPartition]:
    found = moving[group]
    if isinstance(found, GoQueueError):
        raise found
    return found


def _in_words_of(version: int, result: Result) -> Result:
    """Older commits know no word for a group that is not there."""
    if isinstance(result, UnknownGroup) and version < 9:
        return IllegalGeneration(result.message)
    return result


def _codes(wanted: list[OffsetCommit], result: Result) -> Codes:
    if isinstance(result, GoQueueError):
        return {TopicPartition(one.topic, one.partition): coordinator_code(result) for one in wanted}
    assert isinstance(result, OffsetsReply)
    return {
        TopicPartition(one.topic, one.partition): NONE if one.error is None else coordinator_code(one.error)
        for one in result.results
    }


def _stable(found: Iterable[OffsetCommitted], unstable: set[TopicPartition]) -> Iterable[tuple[OffsetCommitted, int]]:
    """What an open transaction is about to change is not told; the client comes again."""
    for one in found:
        if TopicPartition(one.topic, one.partition) in unstable:
            yield _nothing(one.group, one.topic, one.partition), UNSTABLE_OFFSET_COMMIT
        else:
            yield one, NONE


def _nothing(group: str, topic: str, number: int) -> OffsetCommitted:
    return OffsetCommitted(group, topic, number, -1, -1, "", -1)


def _of_none(request: fetching.OffsetFetchRequest, code: int) -> fetching.OffsetFetchResponse:
    """Said of every partition too: the oldest versions have no other place for it, and some clients look at no other.
    Without it nothing would seem to be committed, and they would begin anew."""
    topics = [
        fetching.OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                fetching.OffsetFetchResponsePartition(partition_index=number, committed_offset=-1, error_code=code)
                for number in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return fetching.OffsetFetchResponse(topics=topics, error_code=code)


def _unknown(topic: fetching.OffsetFetchRequestTopics) -> fetching.OffsetFetchResponseTopics:
    parts = [
        fetching.OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=-1, metadata="", error_code=UNKNOWN_TOPIC_ID
        )
        for number in topic.partition_indexes
    ]
    return fetching.OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=parts)
