"""Between SQS's messages and the log's: nothing is lost on the way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.commands import Headers, Stored
from goqueue.base.leases import Delivered
from goqueue.base.sqs_envelope import Envelope, envelope_in
from goqueue.edge.sqs.checks import check_message
from goqueue.edge.sqs.digests import attributes_md5
from goqueue.edge.sqs.errors import SqsError
from goqueue.edge.sqs.messages import WantedAttributes, headers_of, message_out
from goqueue.edge.sqs.names import Arns, check_queue_name, is_queue_name, name_of_url
from goqueue.edge.sqs.schema import AttributeValue, Sent

ARNS = Arns("eu-west-1")
EVERYTHING = WantedAttributes({"All"}, all_names=True)


def delivered(value: bytes | None, headers: Headers = (), key: bytes | None = None, topic: str = "q") -> Delivered:
    return Delivered(Stored(topic, 1, 7, 1_000, key, value, headers), "q:1:7:2:x", 2, 1, 9_000, 5_000)


NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True).filter(lambda name: name != "goqueue-sqs")
LEGAL = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xD7FF), min_size=1, max_size=30)
VALUES = st.one_of(
    LEGAL.map(lambda text: AttributeValue("String", text)),
    LEGAL.map(lambda text: AttributeValue("String.json", text)),
    st.integers().map(lambda number: AttributeValue("Number", str(number))),
    st.binary(min_size=1, max_size=30).map(lambda data: AttributeValue("Binary.raw", None, data)),
)


@settings(deadline=None)
@given(LEGAL, st.dictionaries(NAMES, VALUES, max_size=10), st.integers(1, 2**60))
def test_what_is_sent_is_what_is_received(body: str, attributes: dict[str, AttributeValue], sequence: int) -> None:
    checked = check_message(Sent(body, message_attributes=attributes))
    envelope = Envelope("an-id", 2_000, "me", {}, "trace", "once", sequence)
    shown = message_out(delivered(checked.body, headers_of(checked, envelope), b"g"), EVERYTHING, True, ARNS)
    assert (shown["MessageId"], shown["Body"]) == ("an-id", body)
    for name, value in attributes.items():
        got = shown["MessageAttributes"][name]
        assert got["DataType"] == value.data_type
        assert got.get("StringValue") == value.string_value
        assert got.get("BinaryValue") == value.binary_value
    if attributes:
        assert shown["MD5OfMessageAttributes"] == attributes_md5(checked.attributes)
    assert shown["Attributes"] == {
        "SenderId": "me",
        "SentTimestamp": "2000",
        "ApproximateReceiveCount": "2",
        "ApproximateFirstReceiveTimestamp": "5000",
        "MessageGroupId": "g",
        "MessageDeduplicationId": "once",
        "SequenceNumber": f"{sequence:020d}",
        "AWSTraceHeader": "trace",
    }


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=8), st.none() | st.binary()
)
def test_any_message_of_another_door_can_be_shown(headers: list[tuple[str, bytes | None]], value: bytes | None) -> None:
    shown = message_out(delivered(value, tuple(headers), b"\xff"), EVERYTHING, False, ARNS)
    assert shown["MessageId"] == message_out(delivered(value), WantedAttributes(), False, ARNS)["MessageId"]
    names = {name for name, data in headers if data is not None and not name.startswith("goqueue-")}
    assert set(shown.get("MessageAttributes", {})) - {"goqueue-encoding"} == names


def test_an_envelope_that_cannot_be_read_is_none() -> None:
    for junk in (b"", b"{", b"[]", b'{"id": 5}', b"\xff", b'{"id": "\xff"}'):
        assert envelope_in((("goqueue-sqs", junk),)) is None
    assert message_out(delivered(b"v", (("goqueue-sqs", b"{"),)), EVERYTHING, True, ARNS)["Body"] == "v"


def test_a_dead_letter_says_where_it_died() -> None:
    told = {"topic": "source", "partition": "0", "offset": "3", "attempts": "4", "timestamp": "500"}
    headers = tuple((f"goqueue-dlq-{name}", value.encode()) for name, value in told.items())
    shown = message_out(delivered(b"v", headers, topic="dead"), EVERYTHING, False, ARNS)
    assert shown["Attributes"]["DeadLetterQueueSourceArn"] == "arn:aws:sqs:eu-west-1:000000000000:source"
    assert shown["Attributes"]["ApproximateReceiveCount"] == "6"
    assert shown["Attributes"]["SentTimestamp"] == "500"
    assert "MessageAttributes" not in shown


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://localhost:9324/000000000000/jobs", "jobs"),
        ("https://sqs.us-east-1.amazonaws.com/123456789012/jobs.fifo", "jobs.fifo"),
        ("http://localhost/000000000000/jobs/?x=/y", "jobs"),
        ("jobs", "jobs"),
        ("000000000000/jobs", "jobs"),
    ],
)
def test_names_in_urls(url: str, name: str) -> None:
    assert name_of_url(url) == name


def test_urls_without_a_name() -> None:
    for url in ("", "/", "http://localhost:9324/"):
        with pytest.raises(SqsError):
            name_of_url(url)


def test_names_of_queues() -> None:
    assert is_queue_name("a" * 80)
    assert is_queue_name("a" * 75 + ".fifo")
    assert not is_queue_name("a" * 76 + ".fifo")
    assert not is_queue_name("a.b")
    assert not is_queue_name(".fifo")
    check_queue_name("jobs.fifo", True)
    with pytest.raises(SqsError):
        check_queue_name("jobs.fifo", False)


def test_names_in_arns() -> None:
    assert Arns.name(ARNS.of("jobs")) == "jobs"
    assert Arns.name("arn:aws:sns:us-east-1:000000000000:jobs") is None
    assert Arns.name("jobs") is None
