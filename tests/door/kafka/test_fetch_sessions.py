"""Fetch sessions (KIP-227) as clients see them, and how much one fetch may bring."""

from __future__ import annotations

from goqueue.base.limits import SLICE_ELEMENTS
from goqueue.format.batch import split
from goqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.door.kafka import raw
from tests.door.kafka.raw import Line

ID_NOT_FOUND, INVALID_EPOCH, OUT_OF_RANGE = 70, 71, 1


def asking(
    topic: str,
    offsets: dict[int, int],
    session: int = 0,
    epoch: int = 0,
    gone: tuple[int, ...] = (),
    wait_ms: int = 0,
    bytes_max: int = 1 << 20,
) -> FetchRequest:
    parts = [FetchPartition(number, -1, offset, partition_max_bytes=1 << 20) for number, offset in offsets.items()]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(topic, partitions=parts)] if parts else [],
        forgotten_topics_data=[ForgottenTopic(topic, partitions=gone)] if gone else [],
    )


def given(answer: FetchResponse) -> dict[int, int]:
    """Partitions of an answer and how many batches they bring."""
    return {
        one.partition_index: len(list(split(bytes(one.records or b""))))
        for topic in answer.responses
        for one in topic.partitions
    }


def test_a_session_is_told_only_what_changed(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        line.ask(raw.produce_to(topic, 1, raw.batch(b"a")), 9)
        full = line.ask(asking(topic, {0: 0, 1: 0, 2: 0}), 12)
        assert full.session_id > 0 and given(full) == {0: 0, 1: 1, 2: 0}
        session = full.session_id
        moved = line.ask(asking(topic, {1: 1}, session, 1), 12)
        assert (moved.error_code, moved.session_id, given(moved)) == (0, session, {})
        line.ask(raw.produce_to(topic, 2, raw.batch(b"b")), 9)
        assert given(line.ask(asking(topic, {}, session, 2), 12)) == {2: 1}
        line.ask(raw.produce_to(topic, 0, raw.batch(b"c")), 9)
        assert given(line.ask(asking(topic, {2: 1}, session, 3, gone=(0,)), 12)) == {}
        assert given(line.ask(asking(topic, {0: 0}, session, 4), 12)) == {0: 1}


def test_a_session_of_very_many_partitions_is_told_only_what_changed(kafka: str, topic: str) -> None:
    unknown = range(100, 100 + 2 * SLICE_ELEMENTS)
    with Line(kafka) as line:
        full = line.ask(asking(topic, dict.fromkeys([0, 1, *unknown, 2], 0)), 12)
        (whole,) = full.responses
        assert [one.partition_index for one in whole.partitions] == [0, 1, *unknown, 2]
        assert full.session_id > 0
        (errors,) = line.ask(asking(topic, {}, full.session_id, 1), 12).responses
        assert [one.partition_index for one in errors.partitions] == list(unknown)
        gone = line.ask(asking(topic, {}, full.session_id, 2, gone=tuple(unknown)), 12)
        assert (gone.error_code, given(gone)) == (0, {})
        line.ask(raw.produce_to(topic, 1, raw.batch(b"v")), 9)
        assert given(line.ask(asking(topic, {}, full.session_id, 3), 12)) == {1: 1}


def test_a_session_waits_for_messages_of_all_its_partitions(kafka: str, topic: str) -> None:
    with Line(kafka) as line, Line(kafka) as writer:
        session = line.ask(asking(topic, {0: 0, 1: 0, 2: 0}), 12).session_id
        line.send(asking(topic, {}, session, 1, wait_ms=30_000), 12)
        writer.ask(raw.produce_to(topic, 2, raw.batch(b"late")), 9)
        assert given(line.receive()[1]) == {2: 1}


def test_an_error_of_a_partition_is_told_until_it_ends(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        session = line.ask(asking(topic, {0: 7, 1: 0}), 12).session_id
        for epoch in (1, 2):
            (told,) = line.ask(asking(topic, {}, session, epoch), 12).responses[0].partitions
            assert (told.partition_index, told.error_code) == (0, OUT_OF_RANGE)
        assert given(line.ask(asking(topic, {0: 0}, session, 3), 12)) == {0: 0}
        assert given(line.ask(asking(topic, {}, session, 4), 12)) == {}


def test_sessions_that_are_unknown_or_out_of_step_are_refused(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        assert line.ask(asking(topic, {}, 123, 1), 12).error_code == ID_NOT_FOUND
        session = line.ask(asking(topic, {0: 0}), 12).session_id
        assert line.ask(asking(topic, {}, session, 2), 12).error_code == INVALID_EPOCH
        assert line.ask(asking(topic, {}, session, 1), 12).error_code == 0
        closed = line.ask(asking(topic, {0: 0}, session, -1), 12)
        assert (closed.error_code, closed.session_id) == (0, 0)
        assert line.ask(asking(topic, {}, session, 2), 12).error_code == ID_NOT_FOUND


def test_only_the_first_batch_may_be_larger_than_the_client_allows(kafka: str, topic: str) -> None:
    """A client with a small receive limit gets one batch at a time, of each partition in its turn."""
    with Line(kafka) as line:
        for number in range(3):
            line.ask(raw.produce_to(topic, number, raw.batch(bytes(5_000))), 9)
        first = line.ask(asking(topic, {0: 0, 1: 0, 2: 0}, bytes_max=1_000), 12)
        assert given(first) == {0: 1, 1: 0, 2: 0}
        second = line.ask(asking(topic, {0: 1}, first.session_id, 1, bytes_max=1_000), 12)
        assert given(second) == {1: 1}
        third = line.ask(asking(topic, {1: 1}, first.session_id, 2, bytes_max=1_000), 12)
        assert given(third) == {2: 1}
