"""What is remembered between fetches, and for how long."""

from __future__ import annotations

import itertools

import pytest

from goqueue.base.limits import FETCH_SESSION_PARTITIONS_MAX
from goqueue.edge.kafka.fetch_sessions import EVICT_AFTER_S, FetchSession, FetchSessions, SessionRefused, wanted_of
from goqueue.wire.codes import FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR, INVALID_FETCH_SESSION_EPOCH
from goqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData


class Numbers:
    def __init__(self) -> None:
        self._next = itertools.count(1)

    def token(self, size: int) -> bytes:
        return next(self._next).to_bytes(size, "big")


def sessions(slots: int = 3) -> tuple[FetchSessions, list[None]]:
    evicted: list[None] = []
    return FetchSessions(slots, Numbers(), lambda: evicted.append(None)), evicted


def request(
    *numbers: int, session: int = 0, epoch: int = 0, gone: tuple[int, ...] = (), offset: int = 0
) -> FetchRequest:
    parts = [FetchPartition(number, fetch_offset=offset, partition_max_bytes=100) for number in numbers]
    topics = [FetchTopic("t", partitions=parts)] if parts else []
    forgotten = [ForgottenTopic("t", partitions=list(gone))] if gone else []
    return FetchRequest(session_id=session, session_epoch=epoch, topics=topics, forgotten_topics_data=forgotten)


def told(*numbers: int, high_watermark: int = 5, records: bytes = b"", error: int = 0) -> list[PartitionData]:
    return [
        PartitionData(number, error, -1 if error else high_watermark, log_start_offset=0, records=records)
        for number in numbers
    ]


def opened(found: FetchSessions, count: int, now: float = 0.0, high_watermark: int = 5) -> int:
    numbers = range(count)
    return found.create(wanted_of(request(*numbers), False), told(*numbers, high_watermark=high_watermark), False, now)


def resumed(found: FetchSessions, asked: FetchRequest, now: float = 0.0) -> tuple[FetchSession, list[int]]:
    answer = found.resume(asked, False, now)
    assert not isinstance(answer, SessionRefused) and answer[0] is not None
    return answer[0], [one.partition for one in answer[1]]


def test_a_session_reads_what_it_was_told_and_the_changes() -> None:
    found, _ = sessions()
    number = opened(found, 3)
    assert resumed(found, request(session=number, epoch=1))[1] == [0, 1, 2]
    assert resumed(found, request(7, session=number, epoch=2, gone=(1,)))[1] == [0, 2, 7]
    session, _ = resumed(found, request(2, session=number, epoch=3, offset=9))
    assert [one.offset for one in session.partitions.values()] == [0, 9, 0]
    assert found.resume(request(session=number, epoch=4, gone=(0, 2, 7)), False, 0) == (None, [])
    assert len(found) == 0


@pytest.mark.parametrize(
    ("asked", "by_id", "code"),
    [
        (request(session=99, epoch=1), False, FETCH_SESSION_ID_NOT_FOUND),
        (request(session=1, epoch=2), False, INVALID_FETCH_SESSION_EPOCH),
        (request(session=1, epoch=1), True, FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_what_does_not_fit_is_refused(asked: FetchRequest, by_id: bool, code: int) -> None:
    found, _ = sessions()
    assert opened(found, 1) == 1
    assert found.resume(asked, by_id, 0) == SessionRefused(code)
    assert resumed(found, request(session=1, epoch=1))[1] == [0], "and changes nothing"


def test_only_news_are_told_and_who_gave_messages_comes_last() -> None:
    found, _ = sessions()
    number = opened(found, 3)
    session, _ = resumed(found, request(session=number, epoch=1))
    zero, one, two = session.partitions.values()
    assert not session.is_news(zero, told(0)[0])
    assert session.is_news(one, told(1, records=b"x")[0])
    assert session.is_news(two, told(2, high_watermark=6)[0]) and not session.is_news(two, told(2, high_watermark=6)[0])
    assert [each.partition for each in session.partitions.values()] == [0, 2, 1]
    assert session.is_news(zero, told(0, error=3)[0]) and session.is_news(zero, told(0, error=3)[0])
    assert session.is_news(zero, told(0)[0]), "the end of an error is news"


def test_epochs_wrap_around_to_one() -> None:
    assert [FetchSession.after(epoch) for epoch in (0, 1, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 1, 1]


def test_there_is_no_session_without_a_place_and_stale_ones_make_room() -> None:
    found, evicted = sessions(slots=2)
    first, second = opened(found, 5), opened(found, 5)
    assert opened(found, 9, now=10) == 0, "the others are young and in use"
    resumed(found, request(session=second, epoch=1), now=EVICT_AFTER_S)
    assert opened(found, 1, now=EVICT_AFTER_S + 1) > 0
    assert len(evicted) == 1 and isinstance(found.resume(request(session=first, epoch=1), False, 0), SessionRefused)


def test_an_old_session_makes_room_for_one_that_is_no_smaller() -> None:
    found, evicted = sessions(slots=1)
    number, late = opened(found, 5), EVICT_AFTER_S + 1
    resumed(found, request(session=number, epoch=1), now=late)
    assert opened(found, 4, now=late) == 0
    assert opened(found, 5, now=late) > 0 and len(evicted) == 1 and len(found) == 1


def test_partitions_that_are_remembered_are_bounded() -> None:
    found, _ = sessions(slots=1000)
    made = [opened(found, 40_000) for _ in range(FETCH_SESSION_PARTITIONS_MAX // 40_000 + 1)]
    assert made[-1] == 0 and all(made[:-1])
    grown = request(*range(40_000, 40_002), session=made[0], epoch=1)
    assert found.resume(grown, False, 0) == SessionRefused(FETCH_SESSION_ID_NOT_FOUND)
    assert opened(found, 40_000) > 0, "its place is free again"


def test_no_slots_no_sessions() -> None:
    found, _ = sessions(slots=0)
    assert opened(found, 1) == 0
