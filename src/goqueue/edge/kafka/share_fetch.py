"""ShareFetch and ShareAcknowledge (KIP-932): records go out in batches as stored, and are answered for by ranges."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError, QuotaExceeded
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.leases import Outcome
from goqueue.base.limits import FETCH_BYTES_MAX, FETCH_WAIT_MS_MAX, SHARE_RECORDS_MAX
from goqueue.core.groups.errors import UnknownMember
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import code_of, partition_code
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.share_answers import ShareAnswers
from goqueue.edge.kafka.share_sessions import (
    CLOSING,
    OPENING,
    TOO_MANY,
    PartitionKey,
    ShareSession,
    ShareSessionRefused,
    ShareSessions,
)
from goqueue.format.batch import Buffer, read_header
from goqueue.service.fetch import ReadMemory
from goqueue.service.front import Front
from goqueue.service.sharing import Acquired, AcquiredRange, ShareTake, Sharing
from goqueue.service.topics import Topics
from goqueue.wire.codes import INVALID_REQUEST, INVALID_SHARE_SESSION_EPOCH, NONE
from goqueue.wire.messages import share_acknowledge as acking
from goqueue.wire.messages import share_fetch as fetching

logger = logging.getLogger(__name__)

T = TypeVar("T")
_RECORD_LIMIT: Final = 1  # a share acquire mode: never more records than asked for
_NOT_TOLD: Final = fetching.LeaderIdAndEpoch(-1, -1)  # who leads a partition is asked for
_FULL_MS: Final = 500
_UNNAMED = "The group and the member need a name."


class ShareFetchHandler:
    def __init__(
        self,
        sharing: Front[Sharing],
        topics: Front[Topics],
        names: TopicNames,
        sessions: ShareSessions,
        memory: ReadMemory,
        clock: Callable[[], float],
    ) -> None:
        self._sharing = sharing
        self._topics = topics
        self._names = names
        self._sessions = sessions
        self._memory = memory
        self._clock = clock

    async def fetch(self, call: KafkaCall, request: fetching.ShareFetchRequest) -> fetching.ShareFetchResponse:
        answers = ShareAnswers(request.topics, self._names, request.is_renew_ack, call.caller)
        session = self._session(call, request, answers)
        if isinstance(session, ShareSessionRefused):
            return fetching.ShareFetchResponse(error_code=session.code)
        try:
            return await self._fetch(call, request, session, answers)
        except GoQueueError as error:
            if isinstance(error, UnknownMember):
                self._sessions.close(request.group_id or "", request.member_id or "")
            return fetching.ShareFetchResponse(error_code=code_of(error), error_message=error.message)

    def _session(
        self, call: KafkaCall, request: fetching.ShareFetchRequest, answers: ShareAnswers
    ) -> ShareSession | ShareSessionRefused:
        group, member_id, epoch = request.group_id, request.member_id, request.share_session_epoch
        if not group or not member_id or (epoch == OPENING and answers):
            return ShareSessionRefused(INVALID_REQUEST)
        if epoch != OPENING:
            session = self._sessions.resume(group, member_id, epoch, self._clock())
        else:
            session = self._open(call, group, member_id)
        if isinstance(session, ShareSession) and epoch != CLOSING and not session.update(request):
            self._sessions.close(group, member_id)
            return TOO_MANY
        return session

    def _open(self, call: KafkaCall, group: str, member_id: str) -> ShareSession | ShareSessionRefused:
        try:
            self._sharing.by(call.caller).check_member(group, member_id)
        except GoQueueError as error:
            return ShareSessionRefused(code_of(error))
        return self._sessions.open(group, member_id, self._clock(), call.end, partial(self._ended, call.caller))

    def _ended(self, caller: Caller, group: str, member_id: str) -> None:
        """The connection is gone, and with it the session: what the member held goes to others."""
        try:
            self._sharing.by(caller).release_now(group, member_id)
        except GoQueueError as error:  # then its locks run out
            logger.info("records of a share session not released", extra={"error": error.message})

    async def _fetch(
        self, call: KafkaCall, request: fetching.ShareFetchRequest, session: ShareSession, answers: ShareAnswers
    ) -> fetching.ShareFetchResponse:
        group, member_id, caller = request.group_id or "", request.member_id or "", call.caller
        await self._answer(caller, group, member_id, answers)
        found: list[Acquired] = []
        lost: dict[PartitionKey, GoQueueError] = {}
        if request.share_session_epoch == CLOSING:
            await self._close(caller, group, member_id)
        elif not request.is_renew_ack:
            places, lost = self._places(caller, session.partitions)
            if request.max_records > 0 and request.max_bytes > 0:
                wait_ms = 0 if lost else min(max(request.max_wait_ms, 0), FETCH_WAIT_MS_MAX)
                found = await self._acquire(caller, _take(request, places, wait_ms, caller))
        parts = {key: _data(key[1], answers.outcomes.get(key), lost.get(key)) for key in {**answers.outcomes, **lost}}
        for one in found:
            key = (self._names.id_of(one.at.topic), one.at.partition)
            parts[key] = _data(one.at.partition, answers.outcomes.get(key), None, one, request.batch_size)
        return fetching.ShareFetchResponse(
            acquisition_lock_timeout_ms=self._sharing.by(caller).lock_ms(group),
            responses=[fetching.ShareFetchableTopicResponse(one, data) for one, data in _by_topic(parts).items()],
        )

    async def _acquire(self, caller: Caller, take: ShareTake) -> list[Acquired]:
        """Where as much is in flight as the tenant may, there is nothing to be had, and no error that a client would
        give up for."""
        try:
            return await self._sharing.by(caller).acquire(take, self._memory)
        except QuotaExceeded:
            await asyncio.sleep(min(take.wait_ms_max, _FULL_MS) / 1000)
            return []

    def _places(
        self, caller: Caller, keys: Iterable[PartitionKey]
    ) -> tuple[list[TopicPartition], dict[PartitionKey, GoQueueError]]:
        """Partitions that are there, and what is wrong with the others."""
        places: list[TopicPartition] = []
        lost: dict[PartitionKey, GoQueueError] = {}
        for topic_id, number in keys:
            try:
                name = self._names.by_id(topic_id, caller)
                if name is None:
                    raise self._names.unknown_id()
                partition = self._topics.by(caller).require_readable(name).partition(number)
                partition.check_led()
                places.append(partition.at)
            except GoQueueError as error:
                lost[topic_id, number] = error
        return places, lost

    # --- answers ---------------------------------------------------------------------------------------------

    async def acknowledge(
        self, call: KafkaCall, request: acking.ShareAcknowledgeRequest
    ) -> acking.ShareAcknowledgeResponse:
        group, member_id, epoch = request.group_id, request.member_id, request.share_session_epoch
        if not group or not member_id:
            return acking.ShareAcknowledgeResponse(error_code=INVALID_REQUEST, error_message=_UNNAMED)
        if epoch == OPENING:  # a fetch opens a session
            return acking.ShareAcknowledgeResponse(error_code=INVALID_SHARE_SESSION_EPOCH)
        session = self._sessions.resume(group, member_id, epoch, self._clock())
        if isinstance(session, ShareSessionRefused):
            return acking.ShareAcknowledgeResponse(error_code=session.code)
        try:
            return await self._acknowledge(call.caller, group, member_id, request)
        except GoQueueError as error:
            return acking.ShareAcknowledgeResponse(error_code=code_of(error), error_message=error.message)

    async def _acknowledge(
        self, caller: Caller, group: str, member_id: str, request: acking.ShareAcknowledgeRequest
    ) -> acking.ShareAcknowledgeResponse:
        answers = ShareAnswers(request.topics, self._names, request.is_renew_ack, caller)
        await self._answer(caller, group, member_id, answers)
        if request.share_session_epoch == CLOSING:
            await self._close(caller, group, member_id)
        parts = {key: _acknowledged(key[1], outcome) for key, outcome in answers.outcomes.items()}
        return acking.ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self._sharing.by(caller).lock_ms(group),
            responses=[acking.ShareAcknowledgeTopicResponse(one, data) for one, data in _by_topic(parts).items()],
        )

    async def _answer(self, caller: Caller, group: str, member_id: str, answers: ShareAnswers) -> None:
        if answers.answers:
            answers.done(await self._sharing.by(caller).acknowledge(group, member_id, answers.answers))

    async def _close(self, caller: Caller, group: str, member_id: str) -> None:
        self._sessions.close(group, member_id)
        await self._sharing.by(caller).release(group, member_id)


def _take(request: fetching.ShareFetchRequest, places: list[TopicPartition], wait_ms: int, caller: Caller) -> ShareTake:
    return ShareTake(
        request.group_id or "",
        request.member_id or "",
        places,
        min(request.max_records, SHARE_RECORDS_MAX),
        min(request.max_bytes, FETCH_BYTES_MAX),
        wait_ms,
        request.share_acquire_mode != _RECORD_LIMIT,
        caller,
    )


def _told(outcome: Outcome) -> tuple[int, str | None]:
    return (NONE, None) if outcome is None else (partition_code(outcome), outcome.message)


def _data(
    partition: int, answered: Outcome, lost: Outcome, found: Acquired | None = None, batch_size: int = 0
) -> fetching.PartitionData:
    code, message = _told(lost)
    answer_code, answer_message = _told(answered)
    ranges = [] if found is None else found.ranges
    return fetching.PartitionData(
        partition_index=partition,
        error_code=code,
        error_message=message,
        acknowledge_error_code=answer_code,
        acknowledge_error_message=answer_message,
        current_leader=_NOT_TOLD,
        records=b"" if found is None else b"".join(found.batches),
        acquired_records=[
            fetching.AcquiredRecords(first, last, min(one.deliveries, 32_767))
            for one in ranges
            for first, last in _parts(one, [] if found is None else found.batches, batch_size)
        ],
    )


def _parts(one: AcquiredRange, batches: Sequence[Buffer], size: int) -> Iterator[tuple[Offset, Offset]]:
    """The range in parts that have about so many records and end with a batch."""
    first = one.first
    if 0 < size < one.last - first + 1:
        for last in (read_header(batch).last_offset for batch in batches):
            if first + size - 1 <= last < one.last:
                yield first, last
                first = last + 1
    yield first, one.last


def _acknowledged(partition: int, outcome: Outcome) -> acking.PartitionData:
    code, message = _told(outcome)
    return acking.PartitionData(partition, code, message, acking.LeaderIdAndEpoch(-1, -1))


def _by_topic(parts: Mapping[PartitionKey, T]) -> dict[bytes, list[T]]:
    topics: dict[bytes, list[T]] = {}
    for (topic_id, _), data in parts.items():
        topics.setdefault(topic_id, []).append(data)
    return topics
