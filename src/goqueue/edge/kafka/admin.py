"""Topics as administrators see them: create, delete, widen, shorten, describe."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Container, Mapping, Sequence, Sized

from goqueue.base.commands import Caller
from goqueue.base.errors import AccessDenied, GoQueueError, InvalidField, InvalidPartitions, InvalidReplicaAssignment
from goqueue.base.ids import Offset
from goqueue.core.cluster.shard_choice import Placing, checked_factor
from goqueue.drive.topic_table import Topic
from goqueue.edge.kafka.brokers import KafkaBrokers
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.config_entries import DEFAULT_SOURCE, TOPIC_SOURCE
from goqueue.edge.kafka.errors import code_of, partition_code
from goqueue.edge.kafka.names import NO_ID, TopicNames
from goqueue.service.front import Front
from goqueue.service.storage import Storage
from goqueue.service.topics import Topics
from goqueue.wire.codes import (
    NONE,
    POLICY_VIOLATION,
    UNKNOWN_TOPIC_ID,
)
from goqueue.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from goqueue.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from goqueue.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from goqueue.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from goqueue.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


class AdminHandler:
    def __init__(
        self, topics: Front[Topics], storage: Front[Storage], names: TopicNames, brokers: KafkaBrokers
    ) -> None:
        self._brokers = brokers
        self._topics = topics
        self._storage = storage
        self._names = names

    # --- create and delete ---------------------------------------------------------------------------------

    async def create_topics(self, call: KafkaCall, request: CreateTopicsRequest) -> CreateTopicsResponse:
        named = Counter(topic.name for topic in request.topics)
        results: list[CreatableTopicResult] = []
        for topic in request.topics:
            results.append(await self._create(call.caller, topic, request.validate_only, named[topic.name] > 1))
            await asyncio.sleep(0)
        return CreateTopicsResponse(topics=results)

    async def _create(
        self, caller: Caller, asked: CreatableTopic, only_check: bool, is_double: bool
    ) -> CreatableTopicResult:
        try:
            if is_double:
                raise InvalidField(f"The topic {asked.name!r} is named twice in one request.", field="name")
            placing = self._placing(asked)
            count = len(asked.assignments) or (None if asked.num_partitions == -1 else asked.num_partitions)
            config = {one.name: one.value for one in asked.configs if one.value is not None}
            if only_check:
                topics = self._topics.by(caller)
                made = topics.check_new(asked.name, count, config)
                return CreatableTopicResult(
                    name=asked.name,
                    error_message=None,
                    num_partitions=made,
                    replication_factor=topics.check_placing(asked.name, made, config, placing),
                    configs=[],
                )
            view = await self._topics.by(caller).create(asked.name, count, config, placing=placing)
        except GoQueueError as error:
            return CreatableTopicResult(name=asked.name, error_code=code_of(error), error_message=error.message)
        return CreatableTopicResult(
            name=view.name,
            error_message=None,
            topic_id=uuid.UUID(view.id).bytes,
            num_partitions=view.num_partitions,
            replication_factor=view.replication_factor,
            configs=[
                CreatableTopicConfigs(
                    name=name,
                    value=value,
                    config_source=TOPIC_SOURCE if name in view.overrides else DEFAULT_SOURCE,
                )
                for name, value in view.config.items()
            ],
        )

    def _placing(self, asked: CreatableTopic) -> Placing:
        if asked.assignments:
            return self._assigned({one.partition_index: one.broker_ids for one in asked.assignments}, asked.assignments)
        if asked.replication_factor == -1:
            return Placing()
        return Placing(checked_factor(asked.replication_factor))

    def _assigned(self, nodes: Mapping[int, Sequence[int]], given: Sized) -> Placing:
        """Of a node that is alone nothing else can be named."""
        placed = tuple(tuple(nodes[number]) for number in sorted(nodes))
        if sorted(nodes) != list(range(len(given))) or len({len(one) for one in placed}) > 1:
            raise InvalidReplicaAssignment("Every partition is named once, each with as many replicas.")
        if self._brokers.is_alone and any(one != (self._brokers.node_id,) for one in placed):
            raise InvalidReplicaAssignment("There is one node: a topic has one replica.")
        return Placing(nodes=placed)

    async def delete_topics(self, call: KafkaCall, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        if call.version < 6:
            return DeleteTopicsResponse(
                responses=[await self._delete(call.caller, name) for name in request.topic_names]
            )
        results: list[DeletableTopicResult] = []
        for one in request.topics:
            name = one.name if one.name is not None else self._names.by_id(one.topic_id, call.caller)
            if name is None:
                results.append(DeletableTopicResult(name=None, topic_id=one.topic_id, error_code=UNKNOWN_TOPIC_ID))
            else:
                results.append(await self._delete(call.caller, name, None if one.name is not None else one.topic_id))
        return DeleteTopicsResponse(responses=results)

    async def _delete(self, caller: Caller, name: str, given_id: bytes | None = None) -> DeletableTopicResult:
        """Who may not see a topic is told of it no more than was said: neither its id nor its name."""
        topic_id = self._names.id_of(name)
        try:
            await self._topics.by(caller).delete(name)
        except AccessDenied as error:
            sees = self._topics.by(caller).find(name) is not None
            told = name if sees or given_id is None else None
            known = topic_id if sees else given_id or NO_ID
            return DeletableTopicResult(told, known, code_of(error), error.message)
        except GoQueueError as error:
            return DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=code_of(error), error_message=error.message
            )
        return DeletableTopicResult(name=name, topic_id=topic_id)

    async def create_partitions(self, call: KafkaCall, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        results = [await self._widen(call.caller, topic, request.validate_only) for topic in request.topics]
        return CreatePartitionsResponse(results=results)

    async def _widen(
        self, caller: Caller, asked: CreatePartitionsTopic, only_check: bool
    ) -> CreatePartitionsTopicResult:
        try:
            count = len(self._topics.by(caller).require_users(asked.name).partitions)
            if asked.count <= count:
                raise InvalidPartitions(f"The topic has {count} partitions; ask for more than that.")
            placing = Placing()
            if asked.assignments is not None:
                if len(asked.assignments) != asked.count - count:
                    raise InvalidReplicaAssignment("Every new partition has its replicas named.")
                given = asked.assignments
                placing = self._assigned({at: one.broker_ids for at, one in enumerate(given)}, given)
            if only_check:
                self._topics.by(caller).check_partitions(asked.name, asked.count, placing)
            else:
                await self._topics.by(caller).alter(asked.name, {}, asked.count, placing)
        except GoQueueError as error:
            return CreatePartitionsTopicResult(name=asked.name, error_code=code_of(error), error_message=error.message)
        return CreatePartitionsTopicResult(name=asked.name)

    # --- records and files ---------------------------------------------------------------------------------

    async def delete_records(self, call: KafkaCall, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        topics = [
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    await self._shorten(call.caller, topic.name, one.partition_index, one.offset)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return DeleteRecordsResponse(topics=topics)

    async def _shorten(self, caller: Caller, topic: str, index: int, offset: Offset) -> DeleteRecordsPartitionResult:
        try:
            if not self._topics.by(caller).require_users(topic).config.deletes:
                # A compacted log keeps each key's last record, whatever an administrator asks.
                return DeleteRecordsPartitionResult(
                    partition_index=index, low_watermark=-1, error_code=POLICY_VIOLATION
                )
            self._topics.by(caller).require_users(topic).partition(index).check_led()
            low = await self._storage.by(caller).delete_records(topic, index, offset)
        except GoQueueError as error:
            return DeleteRecordsPartitionResult(
                partition_index=index, low_watermark=-1, error_code=partition_code(error)
            )
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low)

    def log_dirs(self, call: KafkaCall, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        try:
            return self._log_dirs(call, request)
        except AccessDenied as error:
            return DescribeLogDirsResponse(error_code=code_of(error))

    def _log_dirs(self, call: KafkaCall, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        asked = None if request.topics is None else {one.topic: frozenset(one.partitions) for one in request.topics}
        topics = [
            DescribeLogDirsTopic(
                name=topic.name, partitions=self._sizes(topic, None if asked is None else asked[topic.name])
            )
            for topic in self._topics.by(call.caller).all()
            if asked is None or topic.name in asked
        ]
        usage = self._storage.by(call.caller).usage
        result = DescribeLogDirsResult(
            error_code=NONE,
            log_dir=self._storage.by(call.caller).data_dir,
            topics=topics,
            total_bytes=usage.total_bytes,
            usable_bytes=usage.free_bytes,
        )
        return DescribeLogDirsResponse(results=[result])

    def _sizes(self, topic: Topic, wanted: Container[int] | None) -> list[DescribeLogDirsPartition]:
        """Of those that this node holds."""
        return [
            DescribeLogDirsPartition(partition_index=one.at.partition, partition_size=one.size_bytes)
            for one in topic.partitions
            if (wanted is None or one.at.partition in wanted) and self._brokers.node_id in one.shard.replicas
        ]
