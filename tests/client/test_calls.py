"""Requests as they go out, answers as they come in; no server."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import msgspec
import pytest

from goqueue.client import calls
from goqueue.client.calls import ReadOptions, RestCall, finish
from goqueue.client.errors import ConnectionFailed, GoQueueClientError, PartlyStored, TimedOut, error_of_reply
from goqueue.client.messages import NewMessage, Placed

TOPIC = {
    "name": "orders",
    "id": "6f9f3c52",
    "num_partitions": 1,
    "created_ms": 1767225600000,
    "messages": 412,
    "size_bytes": 33040,
    "config": {"retention.ms": "86400000"},
    "overrides": {"retention.ms": "86400000"},
    "partitions": [
        {
            "partition": 0,
            "start_offset": 0,
            "end_offset": 412,
            "high_watermark": 412,
            "messages": 412,
            "size_bytes": 33040,
            "segments": 1,
            "leader": 0,
            "leader_epoch": 0,
            "writable": True,
            "damaged": [],
        }
    ],
}
MESSAGE = {"topic": "orders", "partition": 1, "offset": 7, "timestamp": 5, "key": None, "value": "v", "headers": {}}


def json(value: object) -> bytes:
    return msgspec.json.encode(value)


def body(call: RestCall[Any]) -> Any:
    return msgspec.json.decode(calls.body_of(call) or b"null")


def test_creating_a_topic_sends_only_what_was_given() -> None:
    assert body(calls.create_topic("orders", None, None)) == {"name": "orders"}
    full = calls.create_topic("orders", 3, {"retention.ms": 5})
    assert (full.method, full.path) == ("POST", "/topics")
    assert body(full) == {"name": "orders", "num_partitions": 3, "config": {"retention.ms": 5}}


def test_altering_a_topic_can_take_a_setting_back() -> None:
    call = calls.alter_topic("orders", {"retention.ms": None}, None)
    assert (call.method, call.path, body(call)) == ("PATCH", "/topics/orders", {"config": {"retention.ms": None}})


def test_a_topic_is_read_with_its_partitions() -> None:
    topic = finish(calls.topic("orders"), 200, json({**TOPIC, "from_a_newer_broker": 1}))
    assert (topic.name, topic.overrides, topic.partitions[0].high_watermark) == (
        "orders",
        {"retention.ms": "86400000"},
        412,
    )


def test_a_deleted_topic_has_no_answer() -> None:
    finish(calls.delete_topic("orders"), 204, b"")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250])
def test_a_name_that_would_be_another_route_never_leaves(name: str) -> None:
    for make in (calls.topic, calls.delete_topic):
        with pytest.raises(GoQueueClientError) as caught:
            make(name)
        assert (caught.value.code, caught.value.field) == ("invalid-name", "topic")


def test_publishing_one_gives_its_place() -> None:
    call = calls.publish("orders", NewMessage("v", key="k"), "leader")
    assert (call.method, call.path) == ("POST", "/topics/orders/messages")
    assert body(call) == {"messages": [{"value": "v", "key": "k"}], "acks": "leader"}
    assert finish(call, 200, json({"results": [{"partition": 1, "offset": 17}]})) == Placed(1, 17)


def test_publishing_many_takes_messages_text_and_bytes() -> None:
    call = calls.publish_many("orders", [NewMessage("a", key="k"), "b", b"c", None], "all")
    assert body(call)["messages"] == [{"value": "a", "key": "k"}, {"value": "b"}, {"value": "c"}, {"value": None}]


def test_a_partly_stored_publish_cannot_be_overlooked() -> None:
    call = calls.publish_many("orders", ["a", "b"], "all")
    error = {"code": "message-too-large", "detail": "Too large.", "field": "messages[1].value"}
    with pytest.raises(PartlyStored) as caught:
        finish(call, 207, json({"results": [{"partition": 0, "offset": 4}, {"error": error}]}))
    placed, refused = caught.value.results
    assert placed == Placed(0, 4)
    assert isinstance(refused, GoQueueClientError)
    assert (refused.code, refused.field) == ("message-too-large", "messages[1].value")


def test_too_few_results_are_a_bad_reply() -> None:
    with pytest.raises(GoQueueClientError) as caught:
        finish(calls.publish_many("orders", ["a", "b"], "all"), 200, json({"results": [{"partition": 0, "offset": 4}]}))
    assert caught.value.code == "bad-reply"


def test_reading_a_partition_asks_from_an_offset() -> None:
    call = calls.read("orders", 1, 7, None, ReadOptions(limit=10, timeout=1.5, isolation="read_uncommitted"))
    assert call.path == "/topics/orders/partitions/1/messages"
    assert call.query == {"offset": "7", "limit": "10", "timeout": "1500ms", "isolation": "read_uncommitted"}
    assert call.wait_seconds == 1.5
    page = finish(call, 200, json({"messages": [MESSAGE], "next_offset": 8, "high_watermark": 9}))
    assert [message.text for message in page] == ["v"]
    assert (len(page), page.next_offset, page.next_offsets, page.high_watermark) == (1, 8, {1: 8}, 9)


def test_reading_a_topic_asks_from_a_place() -> None:
    call = calls.read("orders", None, None, 1767225600000, ReadOptions())
    assert (call.path, call.query) == ("/topics/orders/messages", {"from": "1767225600000", "limit": "100"})
    page = finish(call, 200, json({"messages": [], "next_offsets": {"0": 1, "1": 0}, "next": "0:1,1:0"}))
    assert (page.next, page.next_offsets, page.messages) == ("0:1,1:0", {0: 1, 1: 0}, [])


def test_reading_from_two_places_at_once_is_refused() -> None:
    for partition, offset, from_ in ((None, 7, None), (1, None, "latest"), (1, 7, "latest")):
        with pytest.raises(GoQueueClientError) as caught:
            calls.read("orders", partition, offset, from_, ReadOptions())
        assert caught.value.code == "invalid-field"


def test_a_tail_goes_on_behind_its_last_event() -> None:
    call = calls.tail("orders", "latest", 2, "0:1")
    assert (call.path, call.query) == ("/topics/orders/tail", {"from": "latest", "partition": "2"})
    assert call.headers["last-event-id"] == "0:1"


def test_a_node_that_is_not_ready_is_an_answer() -> None:
    ready = finish(calls.ready(), 200, b'{"status": "ready"}')
    assert ready
    not_ready = finish(calls.ready(), 503, b'{"status": "not ready", "checks": {"disk": {"ok": false}}}')
    assert not not_ready
    assert not_ready.told["checks"] == {"disk": {"ok": False}}


def test_a_problem_becomes_an_error_with_all_it_says() -> None:
    problem = {
        "type": "about:blank",
        "title": "Range Not Satisfiable",
        "status": 416,
        "code": "offset-out-of-range",
        "detail": "Offset 9 is not in the log.",
        "field": "offset",
        "start_offset": 2,
        "end_offset": 5,
    }
    error = error_of_reply(416, json(problem))
    assert (error.code, error.field, error.status) == ("offset-out-of-range", "offset", 416)
    assert error.extra == {"start_offset": 2, "end_offset": 5}
    assert str(error) == "Offset 9 is not in the log. (offset-out-of-range)"


@pytest.mark.parametrize("answer", [b"", b"<html>Bad Gateway</html>", b'"text"', b'{"other": "json"}', b"\xff\xfe"])
def test_an_error_of_something_else_says_so(answer: bytes) -> None:
    error = error_of_reply(502, answer)
    assert (error.code, error.status) == ("http-502", 502)
    assert "check the address" in error.detail


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b'{"results": 5}', b'{"results": [{}]}'])
def test_a_success_of_something_else_is_a_bad_reply(answer: bytes) -> None:
    with pytest.raises(GoQueueClientError) as caught:
        finish(calls.publish("orders", NewMessage("v"), "all"), 200, answer)
    assert caught.value.code == "bad-reply"


@pytest.mark.parametrize(
    "error",
    [
        GoQueueClientError("c", "d", "f", 400, {"a": 1}),
        ConnectionFailed("d", may_have_arrived=True),
        TimedOut("d"),
        PartlyStored([Placed(0, 1), GoQueueClientError("c", "d")]),
    ],
)
def test_errors_can_be_copied_and_pass_between_processes(error: GoQueueClientError) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert (str(twin), twin.code, twin.extra) == (str(error), error.code, error.extra)
