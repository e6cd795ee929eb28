"""Answers to share consumers that asked the wrong node, with where the leader is (KIP-951)."""

from __future__ import annotations

import time

from msgspec.structs import replace

from goqueue.base.commands import ANYONE
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import SHARE_SESSIONS_MAX
from goqueue.edge.kafka.brokers import MOVED, KafkaBroker, KafkaBrokers
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.share_fetch import ShareFetchHandler
from goqueue.edge.kafka.share_sessions import ShareSessions
from goqueue.service.fetch import ReadMemory
from goqueue.service.front import Front
from goqueue.service.sharing import Sharing
from goqueue.service.topics import Topics
from goqueue.wire.messages import share_acknowledge as acking
from goqueue.wire.messages import share_fetch as fetching


class ShareHints:
    """Stands before the handler. Most answers go out as they are."""

    def __init__(self, handler: ShareFetchHandler, names: TopicNames, brokers: KafkaBrokers) -> None:
        self._handler = handler
        self._names = names
        self._brokers = brokers

    async def fetch(self, call: KafkaCall, request: fetching.ShareFetchRequest) -> fetching.ShareFetchResponse:
        answer = await self._handler.fetch(call, request)
        if not any(_has_moved(one) for topic in answer.responses for one in topic.partitions):
            return answer
        topics = [replace(topic, partitions=self._fetched(topic)) for topic in answer.responses]
        leaders = {one.current_leader.leader_id for topic in topics for one in topic.partitions}
        ends = [fetching.NodeEndpoint(*_told(one)) for one in self._brokers.endpoints(leaders, call)]
        return replace(answer, responses=topics, node_endpoints=ends)

    async def acknowledge(
        self, call: KafkaCall, request: acking.ShareAcknowledgeRequest
    ) -> acking.ShareAcknowledgeResponse:
        answer = await self._handler.acknowledge(call, request)
        if not any(one.error_code in MOVED for topic in answer.responses for one in topic.partitions):
            return answer
        topics = [replace(topic, partitions=self._acknowledged(topic)) for topic in answer.responses]
        leaders = {one.current_leader.leader_id for topic in topics for one in topic.partitions}
        ends = [acking.NodeEndpoint(*_told(one)) for one in self._brokers.endpoints(leaders, call)]
        return replace(answer, responses=topics, node_endpoints=ends)

    def _fetched(self, topic: fetching.ShareFetchableTopicResponse) -> list[fetching.PartitionData]:
        leaders = {one.partition_index: self._leader(topic.topic_id, one.partition_index) for one in topic.partitions}
        return [
            replace(one, current_leader=fetching.LeaderIdAndEpoch(*leaders[one.partition_index]))
            if _has_moved(one)
            else one
            for one in topic.partitions
        ]

    def _acknowledged(self, topic: acking.ShareAcknowledgeTopicResponse) -> list[acking.PartitionData]:
        leaders = {one.partition_index: self._leader(topic.topic_id, one.partition_index) for one in topic.partitions}
        return [
            replace(one, current_leader=acking.LeaderIdAndEpoch(*leaders[one.partition_index]))
            if one.error_code in MOVED
            else one
            for one in topic.partitions
        ]

    def _leader(self, topic_id: bytes, partition: int) -> tuple[int, int]:
        name = self._names.by_id(topic_id, ANYONE)  # told where the fetch itself knew the topic, and it has moved
        return (-1, -1) if name is None else self._brokers.leader_and_epoch(TopicPartition(name, partition))


def _has_moved(one: fetching.PartitionData) -> bool:
    return one.error_code in MOVED or one.acknowledge_error_code in MOVED


def _told(one: KafkaBroker) -> tuple[int, str, int, str | None]:
    return one.node, one.host, one.port, one.rack


def share_fetching(
    sharing: Front[Sharing], topics: Front[Topics], names: TopicNames, memory: ReadMemory, brokers: KafkaBrokers
) -> ShareHints:
    """The handler, and what stands before it."""
    sessions = ShareSessions(SHARE_SESSIONS_MAX)
    return ShareHints(ShareFetchHandler(sharing, topics, names, sessions, memory, time.monotonic), names, brokers)
