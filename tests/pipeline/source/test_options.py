from __future__ import annotations

import pickle

import pytest

from goqueue.pipeline.link.place import Place
from goqueue.pipeline.options import read_options, write_options
from goqueue.pipeline.source.edges import Moment, StartingOffsets, Times
from goqueue.pipeline.source.errors import BadOption
from goqueue.pipeline.source.subscription import SourceSubscription

_NODE = {"kafka.bootstrap.servers": "localhost:9092"}
_ORDERS = {**_NODE, "subscribe": "orders"}


def test_the_defaults_are_those_of_sparks_kafka_source() -> None:
    options = read_options(_ORDERS, "stream")
    assert options.what == SourceSubscription(topics=("orders",))
    assert (options.start, options.end, options.unmatched) == (None, None, "error")
    assert options.fail_on_loss and not options.headers
    assert options.trigger_delay_ms_max == 15 * 60_000
    assert options.isolation == "read_committed"


def test_names_count_without_regard_to_case() -> None:
    options = read_options({"KAFKA.Bootstrap.Servers": "n:1", "SUBSCRIBE": "a, b", "INCLUDEHEADERS": "True"}, "batch")
    assert options.kafka == "n:1"
    assert options.what.topics == ("a", "b")
    assert options.headers


def test_an_unknown_option_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(BadOption, match=r"no option 'startingOffset'.*'startingOffsets'"):
        read_options({**_ORDERS, "startingOffset": "earliest"}, "batch")


def test_an_unknown_kafka_setting_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(BadOption, match=r"'kafka.fetch.max.byte'.*'kafka.fetch.max.bytes'"):
        read_options({**_ORDERS, "kafka.fetch.max.byte": "1"}, "batch")


def test_known_settings_of_kafkas_client_are_taken_and_noted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "goqueue.pipeline"):
        read_options({**_ORDERS, "kafka.max.poll.records": "500", "fetchOffset.numRetries": "3"}, "batch")
    assert "kafka.max.poll.records" in caplog.text
    assert "fetchOffset.numRetries" in caplog.text


@pytest.mark.parametrize(
    ("setting", "value", "hint"),
    [
        ("kafka.auto.offset.reset", "earliest", "startingOffsets"),
        ("kafka.enable.auto.commit", "true", "group.id"),
        ("kafka.value.deserializer", "x", "binary"),
        ("kafka.security.protocol", "SASL_PLAIN", "SASL_SSL"),
        ("kafka.sasl.jaas.config", "secret", "keyFile"),
        ("kafka.ssl.truststore.location", "x", "caFile"),
    ],
)
def test_settings_that_would_matter_and_cannot_be_kept_are_refused(setting: str, value: str, hint: str) -> None:
    with pytest.raises(BadOption, match=hint) as refused:
        read_options({**_ORDERS, setting: value}, "batch")
    assert "secret" not in str(refused.value)


def test_plaintext_may_be_said_aloud() -> None:
    assert read_options({**_ORDERS, "kafka.security.protocol": "PLAINTEXT"}, "batch").kafka == "localhost:9092"


@pytest.mark.parametrize(
    "more", [{}, {"subscribe": "a", "assign": '{"a": [0]}'}, {"subscribe": "a", "subscribePattern": "a"}]
)
def test_exactly_one_of_subscribe_subscribe_pattern_and_assign(more: dict[str, str]) -> None:
    with pytest.raises(BadOption, match="exactly one of subscribe, subscribePattern, assign"):
        read_options({**_NODE, **more}, "batch")


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribePattern": "a("}, "regular expression"),
        ({"subscribePattern": " "}, "is empty"),
        ({"assign": "orders"}, "JSON"),
        ({"assign": "{}"}, "names no partition"),
        ({"subscribe": "a", "startingOffsets": "newest"}, "JSON"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"zero": 1}}'}, "JSON"),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, "not a time"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "true or false"),
        ({"subscribe": "a", "minPartitions": "0"}, "whole number from 1"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "many"}, "whole number"),
        ({"subscribe": "a", "maxTriggerDelay": "soon"}, "not a duration"),
        ({"subscribe": "a", "isolation": "serializable"}, "read_committed or read_uncommitted"),
        ({"subscribe": "a", "schema": "guess"}, "bytes or registry"),
        ({"subscribe": "a", "mode": "permissive"}, "schema=registry"),
        ({"subscribe": "a", "schema": "registry", "columns": "key"}, "among the columns"),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"subscribe": "a", "group.id": "x", "kafka.group.id": "y"}, "leave one out"),
        ({"subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "more than"),
        ({"subscribe": "a", "path": "a"}, "no path"),
        ({"subscribe": "a", "topic": "a"}, "for writing"),
    ],
)
def test_what_cannot_be_meant_says_what_to_write(more: dict[str, str], hint: str) -> None:
    with pytest.raises(BadOption, match=hint):
        read_options({**_NODE, **more}, "batch")


def test_no_address_at_all() -> None:
    with pytest.raises(BadOption, match="Say where the node is"):
        read_options({"subscribe": "orders"}, "batch")


def test_a_time_for_all_wins_over_times_and_they_win_over_offsets() -> None:
    offsets = {"startingOffsets": '{"a": {"0": 5}}'}
    times = {"startingOffsetsByTimestamp": '{"a": {"0": 1000}}'}
    moment = {"startingTimestamp": "2000"}
    given = {**_NODE, "subscribe": "a"}
    assert read_options({**given, **offsets, **times, **moment}, "batch").start == Moment(2000)
    assert read_options({**given, **offsets, **times}, "batch").start == Times(
        {Place("a", 0): 1000}, "startingOffsetsByTimestamp"
    )
    assert read_options({**given, **offsets}, "batch").start == StartingOffsets({Place("a", 0): 5}, "startingOffsets")


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "pushFilters"])
def test_a_stream_has_no_end_to_be_told(name: str) -> None:
    with pytest.raises(BadOption, match=r"spark\.read"):
        read_options({**_ORDERS, name: "true"}, "stream")


@pytest.mark.parametrize("text", ["latest", "LATEST", '{"orders": {"0": -1}}'])
def test_a_batch_cannot_start_at_the_end(text: str) -> None:
    with pytest.raises(BadOption, match="start"):
        read_options({**_ORDERS, "startingOffsets": text}, "batch")
    assert read_options({**_ORDERS, "startingOffsets": text}, "stream").start is not None


@pytest.mark.parametrize("text", ["earliest", '{"orders": {"0": -2}}'])
def test_a_batch_cannot_end_at_the_beginning(text: str) -> None:
    with pytest.raises(BadOption, match="end"):
        read_options({**_ORDERS, "endingOffsets": text}, "batch")


def test_the_pace_of_a_stream_is_only_a_warning_in_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    read_options({**_ORDERS, "maxOffsetsPerTrigger": "5"}, "batch")
    assert "maxOffsetsPerTrigger" in caplog.text


@pytest.mark.parametrize(("text", "ms"), [("90s", 90_000), ("2min", 120_000), ("15m", 900_000), ("1h", 3_600_000)])
def test_delays_are_written_as_spark_does(text: str, ms: int) -> None:
    assert read_options({**_ORDERS, "maxTriggerDelay": text}, "stream").trigger_delay_ms_max == ms


def test_the_group_and_the_isolation_go_by_kafkas_names_too() -> None:
    options = read_options({**_ORDERS, "kafka.group.id": "g", "kafka.isolation.level": "read_uncommitted"}, "stream")
    assert (options.group, options.isolation) == ("g", "read_uncommitted")


def test_options_pass_between_processes() -> None:
    options = read_options({**_ORDERS, "startingOffsets": '{"orders": {"0": -2}}'}, "batch")
    assert pickle.loads(pickle.dumps(options)) == options


# --- writing ------------------------------------------------------------------------------------------------------


def test_a_write_has_a_topic_and_sparks_own_options() -> None:
    options = write_options(
        {**_NODE, "topic": "out", "checkpointLocation": "/c", "kafka.acks": "all", "kafka.group.id": "shared settings"}
    )
    assert (options.kafka, options.topic, options.txn_app_id) == ("localhost:9092", "out", None)


def test_a_batch_write_can_be_named() -> None:
    options = write_options({"url": "http://n", "txnAppId": "nightly", "txnVersion": "0"})
    assert (options.txn_app_id, options.txn_version) == ("nightly", 0)
    with pytest.raises(BadOption, match="go together"):
        write_options({"url": "http://n", "txnAppId": "nightly"})


def test_a_read_option_in_a_write_is_an_error() -> None:
    with pytest.raises(BadOption, match="for reading"):
        write_options({**_NODE, "subscribe": "orders"})
