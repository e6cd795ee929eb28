"""Fetch, and the look-ups of offsets by time and epoch. File bytes go out as they are."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from goqueue.base.commands import Fetch, Fetched, FetchFrom, Isolation
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import FETCH_BYTES_MAX, FETCH_WAIT_MS_MAX
from goqueue.drive.partition import Partition
from goqueue.edge.kafka.calls import CALLER, Call
from goqueue.edge.kafka.errors import (
    FENCED_LEADER_EPOCH,
    FETCH_SESSION_ID_NOT_FOUND,
    NONE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_ID,
    code_of,
)
from goqueue.edge.kafka.names import TopicNames
from goqueue.service.fetch import Fetching, Room
from goqueue.service.topics import Topics
from goqueue.wire.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from goqueue.wire.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from goqueue.wire.offset_for_leader_epoch import (
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
_ISOLATION: Final = {0: Isolation.READ_UNCOMMITTED, 1: Isolation.READ_COMMITTED}


def epoch_error(partition: Partition, claimed: int) -> int:
    """What is wrong with the leader epoch that a client believes in; -1 means that it does not say."""
    if claimed < 0 or claimed == partition.state.leader_epoch:
        return NONE
    return FENCED_LEADER_EPOCH if claimed < partition.state.leader_epoch else UNKNOWN_LEADER_EPOCH


class FetchHandler:
    def __init__(self, fetching: Fetching, topics: Topics, names: TopicNames, room: Room) -> None:
        self._fetching = fetching
        self._topics = topics
        self._names = names
        self._room = room

    def fetch(self, call: Call, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
        """Sessions are declined: every fetch names all its partitions."""
        if request.session_id != 0 and request.session_epoch > 0:
            return FetchResponse(error_code=FETCH_SESSION_ID_NOT_FOUND)
        isolation = _ISOLATION.get(request.isolation_level, Isolation.READ_UNCOMMITTED)
        asked = _Asked(self._topics, self._names, call, request)
        command = Fetch(
            asked.parts,
            min(max(request.max_bytes, 0), FETCH_BYTES_MAX),
            request.min_bytes,
            0 if asked.refused else min(max(request.max_wait_ms, 0), FETCH_WAIT_MS_MAX),
            isolation,
            CALLER,
        )
        answers = self._fetching.fetch_now(command, self._room)
        if answers is not None:
            return asked.response(answers, isolation)
        return self._fetch_later(asked, command, isolation)

    async def _fetch_later(self, asked: _Asked, command: Fetch, isolation: Isolation) -> FetchResponse:
        return asked.response(await self._fetching.fetch(command, self._room), isolation)

    # --- offsets -------------------------------------------------------------------------------------------

    async def list_offsets(self, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
        isolation = _ISOLATION.get(request.isolation_level, Isolation.READ_UNCOMMITTED)
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[await self._list_offset(topic.name, one, isolation) for one in topic.partitions],
            )
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    async def _list_offset(
        self, topic: str, asked: ListOffsetsPartition, isolation: Isolation
    ) -> ListOffsetsPartitionResponse:
        index = asked.partition_index
        try:
            partition = self._topics.require(topic).partition(index)
            if error := epoch_error(partition, asked.current_leader_epoch):
                return ListOffsetsPartitionResponse(partition_index=index, error_code=error)
            timestamp, offset = await _look_up(partition, asked.timestamp, isolation)
        except GoQueueError as error:
            return ListOffsetsPartitionResponse(partition_index=index, error_code=code_of(error))
        return ListOffsetsPartitionResponse(
            partition_index=index,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=-1 if offset < 0 else partition.state.leader_epoch,
        )

    def epoch_ends(self, call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        topics = [
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    self._epoch_end(topic.topic, one.partition, one.current_leader_epoch, one.leader_epoch)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetForLeaderEpochResponse(topics=topics)

    def _epoch_end(self, topic: str, index: int, claimed: int, epoch: int) -> EpochEndOffset:
        try:
            partition = self._topics.require(topic).partition(index)
        except GoQueueError as error:
            return EpochEndOffset(partition=index, error_code=code_of(error))
        if code := epoch_error(partition, claimed):
            return EpochEndOffset(partition=index, error_code=code)
        if epoch > partition.state.leader_epoch or epoch < 0:
            return EpochEndOffset(partition=index)
        return EpochEndOffset(
            partition=index, leader_epoch=partition.state.leader_epoch, end_offset=partition.state.high_watermark
        )


async def _look_up(partition: Partition, timestamp: int, isolation: Isolation) -> tuple[int, int]:
    """(timestamp, offset) of what a list-offsets request means; -1 for none."""
    if timestamp == LATEST:
        return -1, partition.state.read_limit(isolation)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, partition.log.start_offset
    if timestamp == LATEST_TIERED:
        return -1, -1
    if timestamp == MAX_TIMESTAMP:
        found = await partition.latest_time()
    else:
        found = await partition.offset_at_time(max(timestamp, 0))
    if found is None or found[0] >= partition.state.read_limit(isolation):
        return -1, -1
    return found[1], found[0]


class _Asked:
    """A fetch request sorted into what can be read and what is refused, and put together again in its order."""

    def __init__(self, topics: Topics, names: TopicNames, call: Call, request: FetchRequest) -> None:
        self._topics = topics
        self._by_id = call.version >= 13
        self._names = names
        self._request = request
        self.parts: list[FetchFrom] = []
        self.refused: dict[tuple[int, int], int] = {}  # place in the request -> code
        for at, topic in enumerate(request.topics):
            self._sort(at, topic)

    def _sort(self, at: int, topic: FetchTopic) -> None:
        name = self._names.by_id(topic.topic_id) if self._by_id else topic.topic
        for place, one in enumerate(topic.partitions):
            code = UNKNOWN_TOPIC_ID if name is None else self._epoch_code(name, one.partition, one.current_leader_epoch)
            if code:
                self.refused[(at, place)] = code
            else:
                where = TopicPartition(name or "", one.partition)
                self.parts.append(FetchFrom(where, one.fetch_offset, max(one.partition_max_bytes, 0)))

    def _epoch_code(self, name: str, index: int, claimed: int) -> int:
        if claimed < 0:
            return NONE
        try:
            return epoch_error(self._topics.require(name).partition(index), claimed)
        except GoQueueError:
            return NONE  # the read itself will say what is wrong

    def response(self, answers: list[Fetched], isolation: Isolation) -> FetchResponse:
        found = iter(answers)
        topics: list[FetchableTopicResponse] = []
        for at, topic in enumerate(self._request.topics):
            parts: list[PartitionData] = []
            for place, one in enumerate(topic.partitions):
                code = self.refused.get((at, place))
                if code is not None:
                    parts.append(PartitionData(partition_index=one.partition, error_code=code, high_watermark=-1))
                else:
                    parts.append(_partition_data(next(found), isolation))
            topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=parts))
        return FetchResponse(responses=topics)


def _partition_data(answer: Fetched, isolation: Isolation) -> PartitionData:
    return PartitionData(
        partition_index=answer.at.partition,
        error_code=NONE if answer.error is None else code_of(answer.error),
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.start_offset,
        aborted_transactions=(
            [AbortedTransaction(*one) for one in answer.aborted] if isolation is Isolation.READ_COMMITTED else None
        ),
        records=answer.batches,
    )
