"""Server-sent events: whole, byte by byte, with any line end, and with junk."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.errors import GoQueueClientError
from goqueue.client.events import EventParser, ServerEvent

STREAM = (
    b"\xef\xbb\xbf: hello\n\n"
    b"id: 0:1\nevent: message\ndata: one\n\n"
    b": still here\n\n"
    b"id: 0:2\ndata: two\ndata: lines\n\n"
    b"retry: 250\nunknown: field\ndata\n\n"
    b"event: error\ndata:{}\n\n"
    b"id: 0:9\n\n"
    b"id: 0:10\ndata: cut off"
)
EVENTS = [
    ServerEvent("message", b"one", "0:1"),
    ServerEvent("message", b"two\nlines", "0:2"),
    ServerEvent("message", b"", "0:2"),
    ServerEvent("error", b"{}", "0:2"),
]


def parsed(chunks: list[bytes]) -> list[ServerEvent]:
    parser = EventParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    assert parser.retry_ms == 250
    assert parser.last_id == "0:9", "an event without data moves the id; one that is cut off does not"
    return events


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_reads_the_same_whole_and_byte_by_byte(line_end: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end)
    assert parsed([stream]) == EVENTS
    assert parsed([stream[at : at + 1] for at in range(len(stream))]) == EVENTS


@given(cuts=st.lists(st.integers(0, len(STREAM) * 2)), line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_it_does_not_matter_where_the_bytes_are_cut(cuts: list[int], line_end: bytes) -> None:
    stream = STREAM.replace(b"\n", line_end)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert parsed([stream[a:b] for a, b in pairwise(places)]) == EVENTS


@given(st.lists(st.binary(max_size=30)))
def test_junk_is_never_more_than_no_event(chunks: list[bytes]) -> None:
    parser = EventParser()
    for chunk in chunks:
        parser.feed(chunk)
    parser.feed(b"\n\n")  # ends whatever the junk began
    assert [event.data for event in parser.feed(b"data: sound\n\n")] == [b"sound"]


def test_an_id_with_a_nul_and_a_retry_that_is_no_number_are_passed_over() -> None:
    parser = EventParser()
    assert parser.feed(b"id: 1\nid: a\0b\nretry: soon\ndata: x\n\n") == [ServerEvent("message", b"x", "1")]
    assert parser.retry_ms is None


def test_an_event_beyond_the_limit_is_refused_before_it_fills_the_memory() -> None:
    parser = EventParser(bytes_max=100)
    parser.feed(b"data: " + b"x" * 90)
    with pytest.raises(GoQueueClientError) as caught:
        parser.feed(b"x" * 10)
    assert caught.value.code == "bad-reply"


def test_the_limit_is_an_events_not_a_streams() -> None:
    parser = EventParser(bytes_max=100)
    assert len(parser.feed(b"data: 1234567890\n\n" * 50)) == 50
