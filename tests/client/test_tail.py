"""A tail that loses its connection: where it goes on, and when it gives up."""

from __future__ import annotations

import pytest

from goqueue.client.errors import ConnectionFailed, GoQueueClientError
from goqueue.client.tail import Tail

LOST = ConnectionFailed("gone", may_have_arrived=True)


def event(offset: int) -> bytes:
    return (
        b"id: 0:%d\nevent: message\n"
        b'data: {"topic":"t","partition":0,"offset":%d,"timestamp":0,"key":null,"value":"v%d"}\n\n'
        % (offset + 1, offset, offset)
    )


def connected(patience: float = 60.0) -> Tail:
    tail = Tail("t", "earliest", None, patience)
    tail.connected()
    return tail


def values(tail: Tail, chunk: bytes) -> list[str | None]:
    return [message.text for message in tail.feed(chunk)]


def test_the_first_request_has_no_cursor_and_the_next_goes_on_behind_the_last_message() -> None:
    tail = connected()
    assert "last-event-id" not in tail.request().headers
    assert values(tail, event(0) + event(1) + event(2)[:20]) == ["v0", "v1"]
    tail.lost(LOST, now=0.0)
    assert tail.request().headers["last-event-id"] == "0:2"


def test_half_an_event_of_a_lost_connection_does_not_leak_into_the_next() -> None:
    tail = connected()
    assert values(tail, event(0) + b"data: half") == ["v0"]
    tail.lost(LOST, now=0.0)
    tail.connected()
    assert values(tail, event(1)) == ["v1"]


def test_an_id_without_data_is_a_cursor_too() -> None:
    tail = connected()
    assert values(tail, b"id: 0:5\n\n") == []
    assert tail.request().headers["last-event-id"] == "0:5"


def test_pauses_grow_and_a_message_resets_them() -> None:
    tail = connected()
    pauses = [tail.lost(LOST, now=0.0) for _ in range(8)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    tail.connected()
    assert values(tail, event(0)) == ["v0"]
    assert tail.lost(LOST, now=0.0) == 0.1


def test_the_broker_can_ask_for_longer_pauses() -> None:
    tail = connected()
    assert values(tail, b"retry: 2000\n\n" + event(0)) == ["v0"]
    assert tail.lost(LOST, now=0.0) == 2.0


def test_a_tail_that_never_was_connected_gives_up_at_once() -> None:
    with pytest.raises(ConnectionFailed):
        Tail("t", "latest", None, 60.0).lost(LOST, now=0.0)


def test_patience_is_counted_from_the_loss() -> None:
    tail = connected(patience=10.0)
    tail.lost(LOST, now=100.0)
    tail.lost(LOST, now=109.9)
    with pytest.raises(ConnectionFailed):
        tail.lost(LOST, now=110.0)


@pytest.mark.parametrize(
    "why", [GoQueueClientError("overloaded", "d", None, 503), GoQueueClientError("shutting-down", "d"), LOST]
)
def test_what_passes_is_waited_for(why: GoQueueClientError) -> None:
    assert connected().lost(why, now=0.0) > 0


def test_a_refusal_is_not_repeated() -> None:
    why = GoQueueClientError("unknown-topic", "d", None, 404)
    with pytest.raises(GoQueueClientError) as caught:
        connected().lost(why, now=0.0)
    assert caught.value is why


def test_messages_before_an_error_event_are_handed_out() -> None:
    tail = connected()
    end = b'event: error\ndata: {"code": "damaged-range", "detail": "Damaged.", "status": 500}\n\n'
    messages = tail.feed(event(0) + end)
    assert next(messages).text == "v0"
    with pytest.raises(GoQueueClientError) as caught:
        next(messages)
    assert (caught.value.code, caught.value.status) == ("damaged-range", 500)
    assert tail.request().headers["last-event-id"] == "0:1"


def test_an_error_event_that_says_nothing_is_a_bad_reply() -> None:
    with pytest.raises(GoQueueClientError) as caught:
        list(connected().feed(b"event: error\ndata: oops\n\n"))
    assert caught.value.code == "bad-reply"


def test_events_of_other_kinds_are_passed_over() -> None:
    assert values(connected(), b"event: news\ndata: {}\n\n" + event(0)) == ["v0"]
