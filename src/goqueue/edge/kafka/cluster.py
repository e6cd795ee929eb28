"""What a client asks first: versions, metadata, who coordinates. And SASL, which is refused until it is there."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError, InternalTopic, TopicExists, UnknownTopic
from goqueue.base.limits import PAGE_PARTITIONS_MAX
from goqueue.base.settings import parse_address
from goqueue.drive.identity import Identity
from goqueue.drive.topic_table import Topic
from goqueue.edge.kafka import operations
from goqueue.edge.kafka.calls import Handler, KafkaCall
from goqueue.edge.kafka.errors import code_of
from goqueue.edge.kafka.names import NO_ID, TopicNames
from goqueue.service.front import Front
from goqueue.service.topics import Topics
from goqueue.wire.api import APIS
from goqueue.wire.codes import (
    ILLEGAL_SASL_STATE,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNSUPPORTED_SASL_MECHANISM,
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
from goqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from goqueue.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PRODUCE: Final = 0
_STABLE: Final = {22: 5}  # the newest version of InitProducerId is not settled yet
# What clients decide by: the server-side group protocol, and partitions and groups that become part of a transaction by
# being written to, with a new epoch for each transaction; and share groups.
FEATURES: Final = {"group.version": 1, "share.version": 1, "transaction.version": 2}
_COORDINATED: Final = frozenset({0, 1})  # groups and transactions


class ClusterHandler:
    def __init__(self, topics: Front[Topics], names: TopicNames, identity: Identity, advertised: str) -> None:
        self._topics = topics
        self._names = names
        self._cluster_id = identity.cluster_id
        self._node_id = identity.node_id
        self._advertised = parse_address(advertised) if advertised else None
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
        if not asked.name and bytes(asked.topic_id) != NO_ID:  # Java sends "" with an id
            name = self._names.by_id(asked.topic_id)
            if name is None:
                return MetadataResponseTopic(error_code=UNKNOWN_TOPIC_ID, topic_id=asked.topic_id, name=None)
        else:
            name = asked.name or ""
        try:
            return self._describe(self._topics.by(caller).require(name))
        except GoQueueError as error:
            return MetadataResponseTopic(error_code=code_of(error), name=name, topic_id=asked.topic_id)

    def _describe(self, topic: Topic) -> MetadataResponseTopic:
        partitions = [
            MetadataResponsePartition(
                partition_index=one.at.partition,
                leader_id=one.leader,
                leader_epoch=one.leader_epoch,
                replica_nodes=list(one.replicas),
                isr_nodes=list(one.in_sync),
            )
            for one in topic.partitions
        ]
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=uuid.UUID(topic.record.id).bytes,
            is_internal=topic.is_internal,
            partitions=partitions,
        )

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
            pages.append(_page(found, parts))
            left -= len(parts)
            if first + len(parts) < len(found.partitions):
                rest = paging.Cursor(topic_name=name, partition_index=first + len(parts))
                return paging.DescribeTopicPartitionsResponse(topics=pages, next_cursor=rest)
        return paging.DescribeTopicPartitionsResponse(topics=pages)

    def _metadata(
        self, call: KafkaCall, request: MetadataRequest, topics: list[MetadataResponseTopic]
    ) -> MetadataResponse:
        host, port = self._address(call)
        if request.include_topic_authorized_operations:
            topics = [replace(one, topic_authorized_operations=operations.TOPIC) for one in topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=self._node_id, host=host, port=port)],
            cluster_id=self._cluster_id,
            controller_id=self._node_id,
            topics=topics,
            cluster_authorized_operations=operations.told(
                operations.CLUSTER, request.include_cluster_authorized_operations
            ),
        )

    def _address(self, call: KafkaCall) -> tuple[str, int]:
        return self._advertised or call.local_address

    def cluster(self, call: KafkaCall, request: DescribeClusterRequest) -> DescribeClusterResponse:
        host, port = self._address(call)
        return DescribeClusterResponse(
            cluster_id=self._cluster_id,
            controller_id=self._node_id,
            brokers=[DescribeClusterBroker(broker_id=self._node_id, host=host, port=port)],
            cluster_authorized_operations=operations.told(
                operations.CLUSTER, request.include_cluster_authorized_operations
            ),
        )

    # --- coordinators --------------------------------------------------------------------------------------

    def find_coordinator(self, call: KafkaCall, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        host, port = self._address(call)
        if request.key_type not in _COORDINATED:
            message = "This broker coordinates groups and transactions only."
            refused = [
                Coordinator(key=key, node_id=-1, port=-1, error_code=INVALID_REQUEST, error_message=message)
                for key in request.coordinator_keys
            ]
            return FindCoordinatorResponse(
                error_code=INVALID_REQUEST, error_message=message, node_id=-1, port=-1, coordinators=refused
            )
        found = [
            Coordinator(key=key, node_id=self._node_id, host=host, port=port, error_message=None)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(
            node_id=self._node_id, host=host, port=port, error_message=None, coordinators=found
        )

    # --- SASL ----------------------------------------------------------------------------------------------

    def sasl_handshake(self, call: KafkaCall, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(error_code=UNSUPPORTED_SASL_MECHANISM, mechanisms=[])

    def sasl_authenticate(self, call: KafkaCall, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        message = "This listener has no authentication; connect with security.protocol=PLAINTEXT."
        return SaslAuthenticateResponse(error_code=ILLEGAL_SASL_STATE, error_message=message)


def _page(
    found: MetadataResponseTopic, parts: Sequence[MetadataResponsePartition]
) -> paging.DescribeTopicPartitionsResponseTopic:
    return paging.DescribeTopicPartitionsResponseTopic(
        error_code=found.error_code,
        name=found.name,
        topic_id=found.topic_id,
        is_internal=found.is_internal,
        topic_authorized_operations=operations.told(operations.TOPIC, is_asked=not found.error_code),
        partitions=[
            paging.DescribeTopicPartitionsResponsePartition(
                partition_index=one.partition_index,
                leader_id=one.leader_id,
                leader_epoch=one.leader_epoch,
                replica_nodes=one.replica_nodes,
                isr_nodes=one.isr_nodes,
                eligible_leader_replicas=[],  # the Java client takes none for an answer, but not null
                last_known_elr=[],
            )
            for one in parts
        ],
    )
