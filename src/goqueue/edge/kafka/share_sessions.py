"""Sessions of share consumers: the partitions that a member takes from are kept between its requests.

A session belongs to a member of a group, and counts its requests. A member without one opens it with epoch 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from goqueue.base.limits import SHARE_SESSION_PARTITIONS_MAX
from goqueue.edge.kafka.calls import ConnectionEnd
from goqueue.wire.codes import (
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND,
)
from goqueue.wire.messages.share_fetch import ShareFetchRequest

OPENING: Final = 0
CLOSING: Final = -1
EVICT_AFTER_S: Final = 120.0
_EPOCH_MAX: Final = (1 << 31) - 1

PartitionKey = tuple[bytes, int]  # the topic's id, and the partition


class ShareSessionRefused(msgspec.Struct, frozen=True):
    code: int


class ShareSession:
    """One member's partitions. It ends with the connection that it was opened on."""

    __slots__ = ("end", "epoch", "partitions", "used")

    def __init__(self, now: float, end: ConnectionEnd) -> None:
        self.end = end
        self.epoch = 1  # of the next request
        self.partitions: dict[PartitionKey, None] = {}
        self.used = now

    def update(self, request: ShareFetchRequest) -> bool:
        """False if that would be more than a session holds."""
        for topic in request.topics:
            self.partitions.update(((bytes(topic.topic_id), one.partition_index), None) for one in topic.partitions)
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                self.partitions.pop((bytes(gone.topic_id), number), None)
        return len(self.partitions) <= SHARE_SESSION_PARTITIONS_MAX

    def advance(self, now: float) -> None:
        self.epoch = 1 if self.epoch >= _EPOCH_MAX else self.epoch + 1
        self.used = now


class ShareSessions:
    """All sessions. Times are seconds of the monotonic clock."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, group: str, member_id: str, now: float, end: ConnectionEnd, ended: Callable[[str, str], None]
    ) -> ShareSession | ShareSessionRefused:
        """A new session, in the place of one that the member had; `ended` if its connection ends before it does."""
        self.close(group, member_id)
        if len(self._sessions) >= self._slots:
            self._evict(now)
        if len(self._sessions) >= self._slots:
            return ShareSessionRefused(SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[group, member_id] = ShareSession(now, end)
        end.then((group, member_id), partial(self._ended, group, member_id, ended))
        return session

    def _ended(self, group: str, member_id: str, ended: Callable[[str, str], None]) -> None:
        self.close(group, member_id)
        ended(group, member_id)

    def resume(self, group: str, member_id: str, epoch: int, now: float) -> ShareSession | ShareSessionRefused:
        """The member's session, if the request is its next; one that closes it may come at any time."""
        session = self._sessions.get((group, member_id))
        if session is None:
            return ShareSessionRefused(SHARE_SESSION_NOT_FOUND)
        if epoch == CLOSING:
            return session
        if epoch != session.epoch:
            return ShareSessionRefused(INVALID_SHARE_SESSION_EPOCH)
        session.advance(now)
        return session

    def close(self, group: str, member_id: str) -> None:
        session = self._sessions.pop((group, member_id), None)
        if session is not None:
            session.end.forget((group, member_id))

    def _evict(self, now: float) -> None:
        """Those of members that have not come for long."""
        for key in [key for key, one in self._sessions.items() if now - one.used > EVICT_AFTER_S]:
            self.close(*key)


TOO_MANY: Final = ShareSessionRefused(INVALID_REQUEST)
