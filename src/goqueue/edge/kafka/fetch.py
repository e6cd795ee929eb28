"""Fetch: file bytes go out as they are. Sessions (KIP-227) spare clients to name all partitions every time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, cast

from goqueue.base.commands import Fetch, Fetched, FetchFrom, Isolation
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import FETCH_BYTES_MAX, FETCH_WAIT_MS_MAX, SLICE_ELEMENTS
from goqueue.edge.kafka.calls import CALLER, Call
from goqueue.edge.kafka.errors import INVALID_FETCH_SESSION_EPOCH, NONE, UNKNOWN_TOPIC_ID, code_of
from goqueue.edge.kafka.fetch_sessions import FetchSession, FetchSessions, Refused, Wanted, each_wanted, wanted_of
from goqueue.edge.kafka.lookups import ISOLATION, epoch_error
from goqueue.edge.kafka.names import TopicNames
from goqueue.service.fetch import Fetching, Room
from goqueue.service.paced import Pace
from goqueue.service.topics import Topics
from goqueue.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

FINAL_EPOCH: Final = -1
_NAMED_BY_ID: Final = 13  # the version from which topics are named by their ids


class FetchHandler:
    def __init__(
        self,
        fetching: Fetching,
        topics: Topics,
        names: TopicNames,
        room: Room,
        sessions: FetchSessions,
        clock: Callable[[], float],
    ) -> None:
        self._fetching = fetching
        self._topics = topics
        self._names = names
        self._room = room
        self._sessions = sessions
        self._clock = clock

    def fetch(self, call: Call, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
        by_id = call.version >= _NAMED_BY_ID
        if request.session_epoch <= 0 and sum([len(topic.partitions) for topic in request.topics]) > SLICE_ELEMENTS:
            return self._fetch_whole(request, by_id)
        session: FetchSession | None = None
        if request.session_epoch > 0:
            found = self._sessions.resume(request, by_id, self._clock())
            if isinstance(found, Refused):
                return FetchResponse(error_code=found.code)
            session, wanted = found
        else:
            self._sessions.remove(request.session_id)
            wanted = wanted_of(request, by_id)
        asked = _Asked(self._topics, self._names, wanted, by_id, request.isolation_level)
        if len(wanted) > SLICE_ELEMENTS:
            return self._fetch_many(asked, request, session)
        asked.sort(0, len(wanted))
        command = _command(asked, request)
        answers = self._fetching.fetch_now(command, self._room)
        if answers is not None:
            asked.answer(answers, 0, len(wanted))
            return self._respond(asked, request, session)
        return self._fetch_later(asked, command, request, session)

    async def _fetch_later(
        self, asked: _Asked, command: Fetch, request: FetchRequest, session: FetchSession | None
    ) -> FetchResponse:
        asked.answer(await self._fetching.fetch(command, self._room), 0, len(asked.wanted))
        return self._respond(asked, request, session)

    async def _fetch_whole(self, request: FetchRequest, by_id: bool) -> FetchResponse:
        """A request that names very many partitions and goes on with no session."""
        self._sessions.remove(request.session_id)
        wanted: list[Wanted] = []
        pace = Pace()
        for one in each_wanted(request, by_id):
            wanted.append(one)
            await pace.pause()
        return await self._fetch_many(
            _Asked(self._topics, self._names, wanted, by_id, request.isolation_level), request, None
        )

    async def _fetch_many(self, asked: _Asked, request: FetchRequest, session: FetchSession | None) -> FetchResponse:
        """The same, with pauses for others."""
        count = len(asked.wanted)
        for begin in range(0, count, SLICE_ELEMENTS):
            asked.sort(begin, min(begin + SLICE_ELEMENTS, count))
            await asyncio.sleep(0)
        answers = await self._fetching.fetch(_command(asked, request), self._room)
        for begin in range(0, count, SLICE_ELEMENTS):
            asked.answer(answers, begin, min(begin + SLICE_ELEMENTS, count))
            await asyncio.sleep(0)
        return await self._respond_many(asked, request, session)

    async def _respond_many(self, asked: _Asked, request: FetchRequest, session: FetchSession | None) -> FetchResponse:
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
        if created is not None:
            return FetchResponse(session_id=self._sessions.admit(created, now), responses=topics)
        return FetchResponse(session_id=0 if session is None else session.id, responses=topics)

    def _respond(self, asked: _Asked, request: FetchRequest, session: FetchSession | None) -> FetchResponse:
        if session is not None:
            if session.epoch != session.after(request.session_epoch):  # the client went on without this answer
                return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
            changed = [pair for pair in zip(asked.wanted, asked.answers, strict=True) if session.is_news(*pair)]
            return FetchResponse(session_id=session.id, responses=_by_topic(changed))
        session_id = 0
        if request.session_epoch != FINAL_EPOCH:
            session_id = self._sessions.create(asked.wanted, asked.answers, asked.by_id, self._clock())
        return FetchResponse(
            session_id=session_id, responses=_by_topic(list(zip(asked.wanted, asked.answers, strict=True)))
        )


def _command(asked: _Asked, request: FetchRequest) -> Fetch:
    return Fetch(
        asked.parts,
        min(max(request.max_bytes, 0), FETCH_BYTES_MAX),
        request.min_bytes,
        0 if asked.refused else min(max(request.max_wait_ms, 0), FETCH_WAIT_MS_MAX),
        asked.isolation,
        CALLER,
    )


class _Asked:
    """Partitions sorted into what can be read and what is refused, and the answers in the same order."""

    def __init__(
        self, topics: Topics, names: TopicNames, wanted: list[Wanted], by_id: bool, isolation_level: int
    ) -> None:
        self._topics = topics
        self._names = names
        self._named: dict[bytes, str | None] = {}
        self._next = 0  # of what was read
        self.wanted = wanted
        self.by_id = by_id
        self.isolation = ISOLATION.get(isolation_level, Isolation.READ_UNCOMMITTED)
        self.parts: list[FetchFrom] = []
        self.refused: dict[int, int] = {}  # place -> code
        self.answers: list[PartitionData] = []

    def sort(self, begin: int, end: int) -> None:
        for place in range(begin, end):
            one = self.wanted[place]
            name = self._name(one.topic_id) if self.by_id else one.topic
            code = UNKNOWN_TOPIC_ID if name is None else self._epoch_code(name, one.partition, one.leader_epoch)
            if code:
                self.refused[place] = code
            else:
                self.parts.append(FetchFrom(TopicPartition(name or "", one.partition), one.offset, one.bytes_max))

    def _name(self, topic_id: bytes) -> str | None:
        if topic_id not in self._named:
            self._named[topic_id] = self._names.by_id(topic_id)
        return self._named[topic_id]

    def _epoch_code(self, name: str, index: int, claimed: int) -> int:
        if claimed < 0:
            return NONE
        try:
            return epoch_error(self._topics.require(name).partition(index), claimed)
        except GoQueueError:
            return NONE  # the read itself will say what is wrong

    def answer(self, found: list[Fetched], begin: int, end: int) -> None:
        for place in range(begin, end):
            code = self.refused.get(place) if self.refused else None
            if code is not None:
                index = self.wanted[place].partition
                self.answers.append(PartitionData(partition_index=index, error_code=code, high_watermark=-1))
            else:
                self.answers.append(_partition_data(found[self._next], self.isolation))
                self._next += 1


def _by_topic(pairs: list[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    """Neighbours of one topic together."""
    topics: list[FetchableTopicResponse] = []
    _append_by_topic(topics, pairs)
    return topics


def _append_by_topic(topics: list[FetchableTopicResponse], pairs: list[tuple[Wanted, PartitionData]]) -> None:
    """The next pairs; the first of them may belong to the last topic there is."""
    last = topics[-1] if topics else None
    parts = cast(list[PartitionData], last.partitions) if last is not None else []
    for one, data in pairs:
        if last is None or one.topic != last.topic or one.topic_id != last.topic_id:
            parts = []
            last = FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id, partitions=parts)
            topics.append(last)
        parts.append(data)


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
