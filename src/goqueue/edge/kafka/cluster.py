"""What a client asks first: versions, metadata, who coordinates."""

from __future__ import annotations

import asyncio
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from goqueue.base.access import AclOperation, ResourceKind
from goqueue.base.commands import Caller
from goqueue.base.errors import AccessDenied, GoQueueError, InternalTopic, InvalidField, TopicExists, UnknownTopic
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import PAGE_PARTITIONS_MAX
from goqueue.core.cluster.records import ShardRecord
from goqueue.drive.topic_table import Topic
from goqueue.edge.kafka.brokers import KafkaBroker, KafkaBrokers
from goqueue.edge.kafka.calls import Handler, KafkaCall
from goqueue.edge.kafka.errors import code_of
from goqueue.edge.kafka.names import NO_ID, TopicNames
from goqueue.edge.kafka.operations import Rights
from goqueue.service.front import Front
from goqueue.service.topics import Topics
from goqueue.wire.api import APIS
from goqueue.wire.codes import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    LEADER_NOT_AVAILABLE,
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNSUPPORTED_ENDPOINT_TYPE,
    UNSUPPORTED_VERSION,
)
from goqueue.wire.messages import describe_topic_partitions as paging
from goqueue.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from goqueue.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from goqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from goqueue.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

PRODUCE: Final = 0
_STABLE: Final = {22: 5}  # the newest version of InitProducerId is not settled yet
# What clients decide by: the server-side group protocol, and partitions and groups that become part of a transaction by
# being written to, with a new epoch for each transaction; and share groups.
FEATURES: Final = {"group.version": 1, "share.version": 1, "transaction.version": 2}
GROUP, TRANSACTION, SHARE = range(3)  # what has a coordinator
_BROKERS, _CONTROLLERS = 1, 2  # what DescribeCluster may be asked of
_SINGLE_BELOW: Final = 4  # older versions of FindCoordinator ask for one key

_Place = tuple[int, int, int, list[int]]  # error, leader, its epoch, and replicas that are not there


class ClusterHandler:
    def __init__(
        self, topics: Front[Topics], names: TopicNames, brokers: KafkaBrokers, cluster_id: str, rights: Rights
    ) -> None:
        self._rights = rights
        self._topics = topics
        self._names = names
        self._brokers = brokers
        self._cluster_id = cluster_id
        self._served: Mapping[int, Handler] = {}

    def advertise(self, served: Mapping[int, Handler]) -> None:
        """Only what has a handler is advertised."""
        self._served = served

    def api_versions(self, call: KafkaCall, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
        keys = [
            ApiVersion(
                api_key=key,
                # Old clients of the C library take fright if produce does not begin at 0.
                min_version=0 if key == PRODUCE else APIS[key].min_version,
                max_version=_STABLE.get(key, APIS[key].max_version),
            )
            for key in sorted(self._served)
        ]
        return ApiVersionsResponse(
            error_code=UNSUPPORTED_VERSION if request is None else NONE,
            api_keys=keys,
            supported_features=[SupportedFeatureKey(name, 0, level) for name, level in FEATURES.items()],
            finalized_features_epoch=0,
            finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in FEATURES.items()],
        )

    # --- metadata ------------------------------------------------------------------------------------------

    def metadata(self, call: KafkaCall, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
        if request.topics is None or (call.version == 0 and not request.topics):
            return self._metadata(
                call, request, [self._describe(topic) for topic in self._topics.by(call.caller).everything()]
            )
        asked = list(dict.fromkeys(request.topics))  # who names a topic often is told once, as Kafka does
        may_create = request.allow_auto_topic_creation and self._topics.by(call.caller).kafka_may_create
        if may_create and any(self._is_missing(call.caller, one) for one in asked):
            return self._create_and_describe(call, request, asked)
        return self._metadata(call, request, [self._find(call.caller, one) for one in asked])

    def _is_missing(self, caller: Caller, asked: MetadataRequestTopic) -> bool:
        return bool(asked.name) and self._topics.by(caller).find(asked.name or "") is None

    async def _create_and_describe(
        self, call: KafkaCall, request: MetadataRequest, asked: list[MetadataRequestTopic]
    ) -> MetadataResponse:
        found: list[MetadataResponseTopic] = []
        for one in asked:
            try:
                if self._is_missing(call.caller, one):
                    self._rights.check(call.caller, AclOperation.DESCRIBE, ResourceKind.TOPIC, one.name or "")
                    await self._topics.by(call.caller).create(one.name or "", None, {})
            except TopicExists:
                pass  # somebody was faster
            except GoQueueError as error:
                await asyncio.sleep(0)
                code = code_of(UnknownTopic("")) if isinstance(error, InternalTopic) else code_of(error)
                found.append(MetadataResponseTopic(error_code=code, name=one.name))
                continue
            found.append(self._find(call.caller, one))
            await asyncio.sleep(0)
        return self._metadata(call, request, found)

    def _find(self, caller: Caller, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        by_id = not asked.name and bytes(asked.topic_id) != NO_ID  # Java sends "" with an id
        name = self._names.by_id(asked.topic_id, caller) if by_id else asked.name or ""
        if name is None:
            return MetadataResponseTopic(error_code=UNKNOWN_TOPIC_ID, topic_id=asked.topic_id, name=None)
        try:
            return self._describe(self._topics.by(caller).require(name))
        except GoQueueError as error:
            told = None if by_id and isinstance(error, AccessDenied) else name  # an id tells no name
            return MetadataResponseTopic(error_code=code_of(error), name=told, topic_id=asked.topic_id)

    def _describe(self, topic: Topic) -> MetadataResponseTopic:
        places: dict[int, _Place] = {}  # by shard: there are few of them
        partitions: list[MetadataResponsePartition] = []
        for one in topic.partitions:
            shard = one.shard
            if (place := places.get(id(shard))) is None:
                place = places[id(shard)] = self._place(shard)
            error, leader, epoch, offline = place
            partitions.append(
                MetadataResponsePartition(
                    error, one.at.partition, leader, epoch, shard.replicas, shard.in_sync, offline
                )
            )
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=uuid.UUID(topic.record.id).bytes,
            is_internal=topic.is_internal,
            partitions=partitions,
        )

    def _place(self, shard: ShardRecord) -> _Place:
        if shard.leader in self._brokers.alive:
            return NONE, shard.leader, shard.epoch, self._brokers.offline(shard.replicas)
        return LEADER_NOT_AVAILABLE, -1, shard.epoch, self._brokers.offline(shard.replicas)

    def topic_partitions(
        self, call: KafkaCall, request: paging.DescribeTopicPartitionsRequest
    ) -> paging.DescribeTopicPartitionsResponse:
        """Metadata by pages: so many partitions, and a cursor that goes on behind them."""
        names = sorted({one.name for one in request.topics}) or [
            topic.name for topic in self._topics.by(call.caller).all()
        ]
        cursor, left = request.cursor, min(max(1, request.response_partition_limit), PAGE_PARTITIONS_MAX)
        pages: list[paging.DescribeTopicPartitionsResponseTopic] = []
        for name in names:
            first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
            if cursor is not None and name < cursor.topic_name:
                continue
            if left <= 0:
                return paging.DescribeTopicPartitionsResponse(
                    topics=pages, next_cursor=paging.Cursor(topic_name=name, partition_index=0)
                )
            found = self._find(call.caller, MetadataRequestTopic(name=name))
            parts = found.partitions[first : first + left]
            allowed = self._rights.topic(call.caller, name, is_asked=not found.error_code)
            pages.append(_page(found, parts, self._eligible(call.caller, name), allowed))
            left -= len(parts)
            if first + len(parts) < len(found.partitions):
                rest = paging.Cursor(topic_name=name, partition_index=first + len(parts))
                return paging.DescribeTopicPartitionsResponse(topics=pages, next_cursor=rest)
        return paging.DescribeTopicPartitionsResponse(topics=pages)

    def _eligible(self, caller: Caller, name: str) -> list[tuple[int, ...]]:
        """Replicas that may lead though they are not in sync, of each partition."""
        topic = self._topics.by(caller).find(name)
        return [] if topic is None else [one.shard.eligible for one in topic.partitions]

    def _metadata(
        self, call: KafkaCall, request: MetadataRequest, topics: list[MetadataResponseTopic]
    ) -> MetadataResponse:
        if request.include_topic_authorized_operations:
            topics = [
                replace(one, topic_authorized_operations=self._rights.topic(call.caller, one.name or ""))
                for one in topics
            ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(one.node, one.host, one.port, one.rack) for one in self._brokers.all(call)],
            cluster_id=self._cluster_id,
            controller_id=self._brokers.controller,
            topics=topics,
            cluster_authorized_operations=self._rights.cluster(
                call.caller, request.include_cluster_authorized_operations
            ),
        )

    def cluster(self, call: KafkaCall, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type != _BROKERS:
            return _no_such_endpoint(request.endpoint_type)
        return DescribeClusterResponse(
            cluster_id=self._cluster_id,
            controller_id=self._brokers.controller,
            brokers=[DescribeClusterBroker(one.node, one.host, one.port, one.rack) for one in self._brokers.all(call)],
            cluster_authorized_operations=self._rights.cluster(
                call.caller, request.include_cluster_authorized_operations
            ),
        )

    # --- coordinators --------------------------------------------------------------------------------------

    def find_coordinator(self, call: KafkaCall, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if call.version >= _SINGLE_BELOW:
            return FindCoordinatorResponse(
                coordinators=[self._coordinator(call, request.key_type, key) for key in request.coordinator_keys]
            )
        found = self._coordinator(call, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )

    def _coordinator(self, call: KafkaCall, kind: int, key: str) -> Coordinator:
        try:
            found = self._keeper(call, kind, key)
        except InvalidField as error:
            return _nobody(key, INVALID_REQUEST, error.message)
        except AccessDenied as error:
            return _nobody(key, code_of(error), error.message)
        except GoQueueError as error:
            return _nobody(key, COORDINATOR_NOT_AVAILABLE, error.message)
        return Coordinator(key=key, node_id=found.node, host=found.host, port=found.port, error_message=None)

    def _keeper(self, call: KafkaCall, kind: int, key: str) -> KafkaBroker:
        check = partial(self._rights.check, call.caller, AclOperation.DESCRIBE)
        if kind == GROUP:
            check(ResourceKind.GROUP, key)
            return self._brokers.of_group(key, call)
        if kind == TRANSACTION:
            check(ResourceKind.TRANSACTIONAL_ID, key)
            return self._brokers.of_transactional_id(key, call)
        if kind == SHARE:  # what is known of a share group's records is with their partition
            check(ResourceKind.GROUP, key.rsplit(":", 2)[0])
            return self._brokers.of_partition(self._shared(call.caller, key), call)
        raise InvalidField("This broker coordinates groups, transactions and share groups only.", field="key_type")

    def _shared(self, caller: Caller, key: str) -> TopicPartition:
        """The partition of a key, which is `group:topic-id:partition`."""
        _, topic_id, number = ["", "", *key.rsplit(":", 2)][-3:]
        try:
            return TopicPartition(self._names.by_id(urlsafe_b64decode(topic_id + "=="), caller) or "", int(number))
        except ValueError:
            raise InvalidField("A share group's key is its name, a topic id and a partition.", field="key") from None


def _nobody(key: str, code: int, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message)


def _no_such_endpoint(kind: int) -> DescribeClusterResponse:
    if kind == _CONTROLLERS:
        code, message = MISMATCHED_ENDPOINT_TYPE, "Brokers answer here, and there are no controllers beside them."
    else:
        code, message = UNSUPPORTED_ENDPOINT_TYPE, f"There are no endpoints of the type {kind}."
    return DescribeClusterResponse(error_code=code, error_message=message)


def _page(
    found: MetadataResponseTopic,
    parts: Sequence[MetadataResponsePartition],
    eligible: Sequence[tuple[int, ...]],
    allowed: int,
) -> paging.DescribeTopicPartitionsResponseTopic:
    return paging.DescribeTopicPartitionsResponseTopic(
        error_code=found.error_code,
        name=found.name,
        topic_id=found.topic_id,
        is_internal=found.is_internal,
        topic_authorized_operations=allowed,
        partitions=[
            paging.DescribeTopicPartitionsResponsePartition(
                error_code=one.error_code,
                partition_index=one.partition_index,
                leader_id=one.leader_id,
                leader_epoch=one.leader_epoch,
                replica_nodes=one.replica_nodes,
                isr_nodes=one.isr_nodes,
                eligible_leader_replicas=eligible[one.partition_index],  # the Java client takes none, but not null
                last_known_elr=[],
                offline_replicas=one.offline_replicas,
            )
            for one in parts
        ],
    )
