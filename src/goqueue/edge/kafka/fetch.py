"""Fetch: file bytes go out as they are. Sessions (KIP-227) spare clients to name all partitions every time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from goqueue.base.commands import Caller, Fetch, Fetched, FetchFrom, Isolation
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import SLICE_ELEMENTS
from goqueue.edge.kafka.brokers import MOVED, KafkaBrokers
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import partition_code
from goqueue.edge.kafka.fetch_sessions import (
    FetchSession,
    FetchSessions,
    SessionPartition,
    SessionRefused,
    each_wanted,
    wanted_of,
)
from goqueue.edge.kafka.lookups import ISOLATION
from goqueue.edge.kafka.names import TopicNames
from goqueue.service.fetch import Fetching, ReadMemory
from goqueue.service.front import Front
from goqueue.service.time_slices import TimeSlices
from goqueue.wire.codes import INVALID_FETCH_SESSION_EPOCH
from goqueue.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

FINAL_EPOCH: Final = -1
_KNOWS_REPLICAS: Final = 11  # the version from which clients may be sent to, and ask, followers (KIP-392)
_NAMED_BY_ID: Final = 13  # the version from which topics are named by their ids
_NOBODY: Final = LeaderIdAndEpoch()
_NOBODYS_NAME: Final = "."  # instead of an empty name, which stands for an unknown id


class FetchHandler:
    def __init__(
        self,
        fetching: Front[Fetching],
        names: TopicNames,
        room: ReadMemory,
        sessions: FetchSessions,
        clock: Callable[[], float],
        brokers: KafkaBrokers,
    ) -> None:
        self._brokers = brokers
        self._fetching = fetching
        self._names = names
        self._room = room
        self._sessions = sessions
        self._clock = clock

    def fetch(self, call: KafkaCall, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
        by_id = call.version >= _NAMED_BY_ID
        if request.session_epoch <= 0 and sum([len(topic.partitions) for topic in request.topics]) > SLICE_ELEMENTS:
            return self._fetch_whole(call, request, by_id)
        session: FetchSession | None = None
        if request.session_epoch > 0:
            found = self._sessions.resume(request, by_id, self._clock())
            if isinstance(found, SessionRefused):
                return FetchResponse(error_code=found.code)
            session, wanted = found
        else:
            self._sessions.remove(request.session_id)
            wanted = wanted_of(request, by_id)
        asked = _Asked(self._names, wanted, by_id, request.isolation_level, self._brokers, call.caller)
        if len(wanted) > SLICE_ELEMENTS:
            return self._fetch_many(call, asked, request, session)
        asked.name_parts(0, len(wanted))
        command = _command(asked, request, call)
        answers = self._fetching.by(call.caller).fetch_now(command, self._room)
        if answers is not None:
            asked.answer(answers, 0, len(wanted))
            return self._respond(call, asked, request, session)
        return self._fetch_later(call, asked, command, request, session)

    async def _fetch_later(
        self, call: KafkaCall, asked: _Asked, command: Fetch, request: FetchRequest, session: FetchSession | None
    ) -> FetchResponse:
        asked.answer(await self._fetching.by(call.caller).fetch(command, self._room), 0, len(asked.wanted))
        return self._respond(call, asked, request, session)

    async def _fetch_whole(self, call: KafkaCall, request: FetchRequest, by_id: bool) -> FetchResponse:
        """A request that names very many partitions and goes on with no session."""
        self._sessions.remove(request.session_id)
        wanted: list[SessionPartition] = []
        pace = TimeSlices()
        for one in each_wanted(request, by_id):
            wanted.append(one)
            await pace.pause()
        asked = _Asked(self._names, wanted, by_id, request.isolation_level, self._brokers, call.caller)
        return await self._fetch_many(call, asked, request, None)

    async def _fetch_many(
        self, call: KafkaCall, asked: _Asked, request: FetchRequest, session: FetchSession | None
    ) -> FetchResponse:
        """The same, with pauses for others."""
        count = len(asked.wanted)
        for begin in range(0, count, SLICE_ELEMENTS):
            asked.name_parts(begin, begin + SLICE_ELEMENTS)
            await asyncio.sleep(0)
        answers = await self._fetching.by(call.caller).fetch(_command(asked, request, call), self._room)
        for begin in range(0, count, SLICE_ELEMENTS):
            asked.answer(answers, begin, begin + SLICE_ELEMENTS)
            await asyncio.sleep(0)
        return await self._respond_many(call, asked, request, session)

    async def _respond_many(
        self, call: KafkaCall, asked: _Asked, request: FetchRequest, session: FetchSession | None
    ) -> FetchResponse:
        """As `_respond`, with pauses for others."""
        if session is not None and session.epoch != session.after(request.session_epoch):
            return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        now, count = self._clock(), len(asked.wanted)
        created: FetchSession | None = None
        if session is None and request.session_epoch != FINAL_EPOCH and self._sessions.has_place(count, now):
            created = self._sessions.prepare(asked.by_id, now)
        topics: list[FetchableTopicResponse] = []
        for begin in range(0, count, SLICE_ELEMENTS):
            wanted, answers = (
                asked.wanted[begin : begin + SLICE_ELEMENTS],
                asked.answers[begin : begin + SLICE_ELEMENTS],
            )
            pairs = list(zip(wanted, answers, strict=True))
            if created is not None:
                created.note(wanted, answers)
            if session is not None:
                pairs = [pair for pair in pairs if session.is_news(*pair)]
            _append_by_topic(topics, pairs)
            await asyncio.sleep(0)
        session_id = 0 if session is None else session.id
        if created is not None:
            session_id = self._sessions.admit(created, now)
        return FetchResponse(session_id=session_id, responses=topics, node_endpoints=asked.endpoints(call))

    def _respond(
        self, call: KafkaCall, asked: _Asked, request: FetchRequest, session: FetchSession | None
    ) -> FetchResponse:
        if session is not None:
            if session.epoch != session.after(request.session_epoch):  # the client went on without this answer
                return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
            changed = [pair for pair in zip(asked.wanted, asked.answers, strict=True) if session.is_news(*pair)]
            return FetchResponse(
                session_id=session.id, responses=_by_topic(changed), node_endpoints=asked.endpoints(call)
            )
        session_id = 0
        if request.session_epoch != FINAL_EPOCH:
            session_id = self._sessions.create(asked.wanted, asked.answers, asked.by_id, self._clock())
        return FetchResponse(
            session_id=session_id,
            responses=_by_topic(list(zip(asked.wanted, asked.answers, strict=True))),
            node_endpoints=asked.endpoints(call),
        )


def _command(asked: _Asked, request: FetchRequest, call: KafkaCall) -> Fetch:
    knows = call.version >= _KNOWS_REPLICAS
    sizes = request.max_bytes, request.min_bytes, request.max_wait_ms
    rack = request.rack_id if knows else ""
    return Fetch(asked.parts, *sizes, asked.isolation, call.caller, rack=rack, at_follower=knows)


class _Asked:
    """What a client reads, as parts of a command, and the answers in the same order."""

    def __init__(
        self,
        names: TopicNames,
        wanted: list[SessionPartition],
        by_id: bool,
        isolation_level: int,
        brokers: KafkaBrokers,
        caller: Caller,
    ) -> None:
        self._names = names
        self._caller = caller
        self._brokers = brokers
        self._leaders: set[int] = set()  # that answers name, instead of records
        self._named: dict[bytes, str] = {}
        self.wanted = wanted
        self.by_id = by_id
        self.isolation = ISOLATION.get(isolation_level, Isolation.READ_UNCOMMITTED)
        self.parts: list[FetchFrom] = []
        self.answers: list[PartitionData] = []

    def name_parts(self, begin: int, end: int) -> None:
        for one in self.wanted[begin:end]:
            name = self._name(one.topic_id) if self.by_id else one.topic or _NOBODYS_NAME
            at = TopicPartition(name, one.partition)
            self.parts.append(FetchFrom(at, one.offset, one.bytes_max, one.leader_epoch))

    def _name(self, topic_id: bytes) -> str:
        if topic_id not in self._named:
            self._named[topic_id] = self._names.by_id(topic_id, self._caller) or ""
        return self._named[topic_id]

    def answer(self, found: list[Fetched], begin: int, end: int) -> None:
        isolation, moved = self.isolation, self._moved
        self.answers += [_partition_data(one, isolation, moved) for one in found[begin:end]]

    def _moved(self, at: TopicPartition) -> LeaderIdAndEpoch:
        leader, epoch = self._brokers.leader_and_epoch(at)
        self._leaders.add(leader)
        return LeaderIdAndEpoch(leader, epoch)

    def endpoints(self, call: KafkaCall) -> Sequence[NodeEndpoint]:
        """Where the leaders are that the answers name (KIP-951)."""
        if not self._leaders:
            return ()
        found = self._brokers.endpoints(self._leaders, call)
        return [NodeEndpoint(one.node, one.host, one.port, one.rack) for one in found]


def _by_topic(pairs: list[tuple[SessionPartition, PartitionData]]) -> list[FetchableTopicResponse]:
    """Neighbours of one topic together."""
    topics: list[FetchableTopicResponse] = []
    _append_by_topic(topics, pairs)
    return topics


def _append_by_topic(topics: list[FetchableTopicResponse], pairs: list[tuple[SessionPartition, PartitionData]]) -> None:
    """The next pairs; the first of them may belong to the last topic there is."""
    last = topics[-1] if topics else None
    parts = cast(list[PartitionData], last.partitions) if last is not None else []
    for one, data in pairs:
        if last is None or one.topic != last.topic or one.topic_id != last.topic_id:
            parts = []
            last = FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id, partitions=parts)
            topics.append(last)
        parts.append(data)


def _partition_data(
    answer: Fetched, isolation: Isolation, moved: Callable[[TopicPartition], LeaderIdAndEpoch]
) -> PartitionData:
    if answer.error is not None:
        return _refused(answer, answer.error, isolation, moved)
    return PartitionData(
        partition_index=answer.at.partition,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.start_offset,
        aborted_transactions=(
            [AbortedTransaction(*one) for one in answer.aborted] if isolation is Isolation.READ_COMMITTED else None
        ),
        preferred_read_replica=-1 if answer.read_at is None else answer.read_at,
        records=answer.batches,
    )


def _refused(
    answer: Fetched,
    error: GoQueueError,
    isolation: Isolation,
    moved: Callable[[TopicPartition], LeaderIdAndEpoch],
) -> PartitionData:
    code = partition_code(error)
    return PartitionData(
        partition_index=answer.at.partition,
        error_code=code,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.start_offset,
        current_leader=moved(answer.at) if code in MOVED else _NOBODY,
        aborted_transactions=[] if isolation is Isolation.READ_COMMITTED else None,
        records=answer.batches,
    )
