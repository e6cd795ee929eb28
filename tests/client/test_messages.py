"""Messages to JSON and back: text stays text, everything else survives as base64."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.errors import GoQueueClientError
from goqueue.client.messages import Message, NewMessage, decode_message, encode_message, encode_received

CONTENT = st.none() | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=4).map(lambda pairs: tuple(sorted(pairs, key=str)))


def sent(message: NewMessage) -> dict[str, object]:
    return msgspec.json.decode(encode_message(message), type=dict[str, object])


def test_text_and_utf8_bytes_go_as_text() -> None:
    assert sent(NewMessage("héllo")) == {"value": "héllo"}
    assert sent(NewMessage("héllo".encode(), key=b"k")) == {"value": "héllo", "key": "k"}


def test_other_bytes_go_as_marked_base64() -> None:
    told = sent(NewMessage(b"\xff", key=b"\xfe", headers={"h": b"\xfd"}))
    assert told == {
        "value": "/w==",
        "encoding": "base64",
        "key": "/g==",
        "key_encoding": "base64",
        "headers": {"h": {"encoding": "base64", "value": "/Q=="}},
    }


def test_a_tombstone_has_a_null_value() -> None:
    assert sent(NewMessage(None, key="k")) == {"value": None, "key": "k"}


def test_priority_zero_is_a_priority() -> None:
    assert sent(NewMessage("x", priority=0, partition=0)) == {"value": "x", "priority": 0, "partition": 0}


def test_a_header_that_occurs_twice_is_a_list() -> None:
    assert sent(NewMessage("x", headers=[("a", "1"), ("b", None), ("a", "2")]))["headers"] == {
        "a": ["1", "2"],
        "b": None,
    }


def test_a_timestamp_is_a_number_text_or_a_datetime_with_a_zone() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert sent(NewMessage("x", timestamp=moment))["timestamp"] == 1_769_860_800_000
    assert sent(NewMessage("x", timestamp="2026-01-31"))["timestamp"] == "2026-01-31"
    assert sent(NewMessage("x", timestamp=5))["timestamp"] == 5
    with pytest.raises(GoQueueClientError, match="no time zone"):
        encode_message(NewMessage("x", timestamp=datetime(2026, 1, 31)))


def test_text_that_cannot_be_utf8_is_refused_before_it_is_sent() -> None:
    with pytest.raises(GoQueueClientError) as caught:
        encode_message(NewMessage("\ud800"))
    assert (caught.value.code, caught.value.field) == ("invalid-field", "value")


def test_what_is_neither_text_nor_bytes_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        encode_message(NewMessage(5))  # type: ignore[arg-type]


@given(key=CONTENT, value=CONTENT, headers=HEADERS)
def test_every_message_survives_the_way_through_json(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    message = Message("orders", 1, 2, 3, key, value, headers, "high")
    back = decode_message(encode_received(message))
    assert (back.key, back.value, back.priority) == (key, value, "high")
    assert sorted(back.headers, key=str) == sorted(headers, key=str)


def test_a_message_reads_as_the_broker_documents_it() -> None:
    data = (
        b'{"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1767225600000, "key": "user-1", '
        b'"value": "hello", "headers": {"source": "web", "n": [null, {"encoding": "base64", "value": "/w=="}]}, '
        b'"priority": "high", "added_by_a_newer_broker": 1}'
    )
    message = decode_message(data)
    assert (message.text, message.key_text, message.priority) == ("hello", "user-1", "high")
    assert message.headers == (("source", b"web"), ("n", None), ("n", b"\xff"))
    assert (message.header("source"), message.header("absent")) == (b"web", None)


def test_a_tombstone_has_no_text() -> None:
    message = decode_message(b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"key":null,"value":null}')
    assert (message.text, message.key_text, message.value) == (None, None, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"topic":"t"}',
        b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"value":"!","encoding":"base64"}',
        b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"value":"!","encoding":"rot13"}',
    ],
)
def test_what_is_no_message_is_a_bad_reply(data: bytes) -> None:
    with pytest.raises(GoQueueClientError) as caught:
        decode_message(data)
    assert caught.value.code == "bad-reply"
