"""Look-ups of offsets: by time, by Kafka's special times, and by leader epoch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from goqueue.base.commands import Caller, Isolation
from goqueue.base.errors import GoQueueError
from goqueue.drive.partition import Partition
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import partition_code
from goqueue.service.front import Front
from goqueue.service.time_slices import TimeSlices
from goqueue.service.topics import Topics
from goqueue.wire.codes import INVALID_REQUEST, UNSUPPORTED_VERSION
from goqueue.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from goqueue.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
# Times below 0 have a meaning each, from a version on; any other is refused.
_SPECIAL_FROM: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
ISOLATION: Final = {0: Isolation.READ_UNCOMMITTED, 1: Isolation.READ_COMMITTED}


class LookupHandler:
    def __init__(self, topics: Front[Topics]) -> None:
        self._topics = topics

    async def list_offsets(self, call: KafkaCall, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """With pauses for others. A partition that is named twice is refused, as often as it is named."""
        isolation = ISOLATION.get(request.isolation_level, Isolation.READ_UNCOMMITTED)
        pause = TimeSlices().pause
        doubled = await _doubled(request, pause)
        topics: list[ListOffsetsTopicResponse] = []
        for topic in request.topics:
            found: list[ListOffsetsPartitionResponse] = []
            for one in topic.partitions:
                if (topic.name, one.partition_index) in doubled:
                    found.append(_refused(one.partition_index, INVALID_REQUEST))
                else:
                    found.append(await self._list_offset(call, topic.name, one, isolation))
                await pause()
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=found))
        return ListOffsetsResponse(topics=topics)

    async def _list_offset(
        self, call: KafkaCall, topic: str, asked: ListOffsetsPartition, isolation: Isolation
    ) -> ListOffsetsPartitionResponse:
        index = asked.partition_index
        if asked.timestamp < 0 and call.version < _SPECIAL_FROM.get(asked.timestamp, call.version + 1):
            return _refused(index, UNSUPPORTED_VERSION)
        try:
            partition = self._topics.by(call.caller).require(topic).partition(index)
            partition.check_epoch(asked.current_leader_epoch)
            timestamp, offset = await _look_up(partition, asked.timestamp, isolation)
        except GoQueueError as error:
            return _refused(index, partition_code(error))
        return ListOffsetsPartitionResponse(
            partition_index=index,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=-1 if offset < 0 else partition.epoch_at(offset),
        )

    def epoch_ends(self, call: KafkaCall, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        topics = [
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    self._epoch_end(call.caller, topic.topic, one.partition, one.current_leader_epoch, one.leader_epoch)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetForLeaderEpochResponse(topics=topics)

    def _epoch_end(self, caller: Caller, topic: str, index: int, claimed: int, epoch: int) -> EpochEndOffset:
        try:
            partition = self._topics.by(caller).require(topic).partition(index)
            partition.check_epoch(claimed)
        except GoQueueError as error:
            return EpochEndOffset(partition=index, error_code=partition_code(error))
        if (found := partition.epoch_end(epoch)) is None:
            return EpochEndOffset(partition=index)
        return EpochEndOffset(partition=index, leader_epoch=found[0], end_offset=found[1])


def _refused(index: int, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


async def _doubled(request: ListOffsetsRequest, pause: Callable[[], Awaitable[None]]) -> set[tuple[str, int]]:
    """Partitions that are named more than once."""
    seen: set[tuple[str, int]] = set()
    doubled: set[tuple[str, int]] = set()
    for topic in request.topics:
        for one in topic.partitions:
            at = (topic.name, one.partition_index)
            (doubled if at in seen else seen).add(at)
            await pause()
    return doubled


async def _look_up(partition: Partition, timestamp: int, isolation: Isolation) -> tuple[int, int]:
    """(timestamp, offset) of what a list-offsets request means; -1 for none."""
    if timestamp == LATEST:
        return -1, partition.read_limit(isolation)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, partition.start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # nothing is ever moved to another tier
        return -1, -1
    if timestamp == MAX_TIMESTAMP:
        found = await partition.latest_time()
    else:
        found = await partition.offset_at_time(timestamp)
    if found is None or found[0] >= partition.read_limit(isolation):
        return -1, -1
    return found[1], found[0]
