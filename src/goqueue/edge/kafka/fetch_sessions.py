"""Fetch sessions (KIP-227): what a client reads is kept between its fetches, so that it names changes only.

A session has an id and an epoch, which counts its fetches. Answers of a session leave out partitions of which there is
no news. Sessions are few and bounded: who gets none names all its partitions every time, which always works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from goqueue.base.entropy import Entropy
from goqueue.base.limits import FETCH_SESSION_PARTITIONS_MAX, REQUEST_ELEMENTS_MAX
from goqueue.wire.codes import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
    NONE,
)
from goqueue.wire.messages.fetch import FetchRequest, PartitionData

EVICT_AFTER_S: Final = 120.0
_FIRST_EPOCH: Final = 1
_EPOCH_MAX: Final = (1 << 31) - 1
_ID_MASK: Final = (1 << 31) - 1

Key = tuple[str, bytes, int]  # topic, its id, partition; a client gives one of the first two


class SessionPartition(msgspec.Struct, gc=False):
    """One partition that a client reads, and what it was last told about it."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    bytes_max: int
    leader_epoch: int
    high_watermark: int = -1
    start_offset: int = -1


class SessionRefused(msgspec.Struct, frozen=True):
    code: int


def wanted_of(request: FetchRequest, by_id: bool) -> list[SessionPartition]:
    """What a request names, in its order."""
    return list(each_wanted(request, by_id))


def each_wanted(request: FetchRequest, by_id: bool) -> Iterator[SessionPartition]:
    for topic in request.topics:
        name, topic_id = "" if by_id else topic.topic, topic.topic_id
        for one in topic.partitions:
            most = max(one.partition_max_bytes, 0)
            yield SessionPartition(name, topic_id, one.partition, one.fetch_offset, most, one.current_leader_epoch)


def _key(one: SessionPartition) -> Key:
    return one.topic, one.topic_id, one.partition


class FetchSession:
    """One client's partitions, in the order in which they are read: who gave messages goes to the end."""

    __slots__ = ("by_id", "created", "epoch", "id", "partitions", "used")

    def __init__(self, session_id: int, by_id: bool, partitions: dict[Key, SessionPartition], now: float) -> None:
        self.id = session_id
        self.by_id = by_id
        self.partitions = partitions
        self.created = self.used = now
        self.epoch = _FIRST_EPOCH  # of the next fetch

    @staticmethod
    def after(epoch: int) -> int:
        return 1 if epoch >= _EPOCH_MAX else epoch + 1

    def update(self, request: FetchRequest) -> None:
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                self.partitions.pop(("" if self.by_id else gone.topic, gone.topic_id, number), None)
        for one in each_wanted(request, self.by_id):
            known = self.partitions.get(_key(one))
            if known is not None:
                one.high_watermark, one.start_offset = known.high_watermark, known.start_offset
            self.partitions[_key(one)] = one

    def note(self, wanted: Sequence[SessionPartition], answers: Sequence[PartitionData]) -> None:
        """Partitions of a new session, and what the client is told about them."""
        for one, data in zip(wanted, answers, strict=True):
            self.partitions[_key(one)] = one
            self.is_news(one, data)

    def is_news(self, one: SessionPartition, data: PartitionData) -> bool:
        """Whether the client has to be told; what it is told is remembered."""
        known = (one.high_watermark, one.start_offset)
        one.high_watermark = -1 if data.error_code != NONE else data.high_watermark
        one.start_offset = data.log_start_offset
        if data.records and self.partitions.get(_key(one)) is one:
            self.partitions[_key(one)] = self.partitions.pop(_key(one))
        has_moved = known != (data.high_watermark, data.log_start_offset)
        return bool(data.records) or has_moved or data.error_code != NONE or data.preferred_read_replica >= 0


class FetchSessions:
    """All sessions. Times are seconds of the monotonic clock."""

    def __init__(self, slots: int, entropy: Entropy, on_evicted: Callable[[], None]) -> None:
        self._slots = slots
        self._entropy = entropy
        self._on_evicted = on_evicted
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self, wanted: Sequence[SessionPartition], answers: Sequence[PartitionData], by_id: bool, now: float
    ) -> int:
        """The id of a new session; 0 if there is no place for one."""
        if not wanted or not self.has_place(len(wanted), now):
            return 0
        session = FetchSession(self._new_id(), by_id, {_key(one): one for one in wanted}, now)
        for one, data in zip(wanted, answers, strict=True):
            session.is_news(one, data)
        return self._add(session)

    def prepare(self, by_id: bool, now: float) -> FetchSession:
        """A session that is yet to be filled, for `admit`."""
        return FetchSession(self._new_id(), by_id, {}, now)

    def admit(self, session: FetchSession, now: float) -> int:
        """As `create`."""
        if session.id in self._sessions or not self.has_place(len(session.partitions), now):
            return 0
        return self._add(session)

    def _add(self, session: FetchSession) -> int:
        self._sessions[session.id] = session
        self._partitions += len(session.partitions)
        return session.id

    def resume(
        self, request: FetchRequest, by_id: bool, now: float
    ) -> tuple[FetchSession | None, list[SessionPartition]] | SessionRefused:
        """The session and all that it reads, after the changes of this request; one without partitions is over."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return SessionRefused(FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return SessionRefused(INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return SessionRefused(FETCH_SESSION_TOPIC_ID_ERROR)
        before = len(session.partitions)
        session.update(request)
        session.used, session.epoch = now, session.after(session.epoch)
        self._partitions += len(session.partitions) - before
        if len(session.partitions) > REQUEST_ELEMENTS_MAX or self._partitions > FETCH_SESSION_PARTITIONS_MAX:
            self.remove(session.id)
            return SessionRefused(FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            self.remove(session.id)
            return None, []
        return session, list(session.partitions.values())

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def _new_id(self) -> int:
        while True:
            found = int.from_bytes(self._entropy.token(4), "big") & _ID_MASK
            if found and found not in self._sessions:
                return found

    # --- room ------------------------------------------------------------------------------------------------

    def has_place(self, size: int, now: float) -> bool:
        """As Kafka decides: what is long unused goes, then what is old and smaller than the new one."""
        while len(self._sessions) >= self._slots or self._partitions + size > FETCH_SESSION_PARTITIONS_MAX:
            victim = self._victim(size, now)
            if victim is None:
                return False
            self.remove(victim.id)
            self._on_evicted()
        return True

    def _victim(self, size: int, now: float) -> FetchSession | None:
        if not self._sessions:
            return None
        stalest = min(self._sessions.values(), key=lambda one: one.used)
        if now - stalest.used > EVICT_AFTER_S:
            return stalest
        old = [one for one in self._sessions.values() if now - one.created > EVICT_AFTER_S]
        smallest = min(old, key=lambda one: len(one.partitions), default=None)
        return smallest if smallest is not None and len(smallest.partitions) <= size else None
