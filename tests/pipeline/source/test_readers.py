"""The classes that Spark calls, called as Spark calls them."""

from __future__ import annotations

import json
import pickle
import socket
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructType

from goqueue.pipeline.options import Options
from goqueue.pipeline.source import readers
from goqueue.pipeline.source.errors import BadOption
from goqueue.pipeline.source.offsets import INITIAL
from goqueue.pipeline.source.readers import StreamReader
from pyspark_goqueue import DefaultSource
from tests.pipeline.source.fakes import FakeCluster

_GIVEN = {"kafka.bootstrap.servers": "n:1", "subscribe": "a", "startingOffsets": "earliest"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake = FakeCluster(a=[(0, 10), (0, 5)])
    monkeypatch.setattr(readers, "cluster_of", lambda options: fake)
    return fake


def _source(**more: str) -> DefaultSource:
    return DefaultSource(CaseInsensitiveDict({**_GIVEN, **more}))


def _stream_reader(**more: str) -> StreamReader:
    source = _source(**more)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    return reader


def test_spark_finds_it_by_its_name() -> None:
    assert DefaultSource.name() == "goqueue"


def test_trap_4_nothing_is_opened_before_it_is_used_and_everything_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)
    source = pickle.loads(cloudpickle.dumps(_source()))
    schema = source.schema()
    for made in (source.reader(schema), source.streamReader(schema)):
        assert type(pickle.loads(cloudpickle.dumps(made))) is type(made)


def test_a_reader_takes_filters_only_if_it_is_told_to() -> None:
    """Spark refuses every read of a source that could, unless its pushdown is on."""
    plain, filtering = _source(), _source(pushFilters="true")
    assert type(plain.reader(plain.schema())).pushFilters is DataSourceReader.pushFilters
    assert type(filtering.reader(filtering.schema())).pushFilters is not DataSourceReader.pushFilters


def test_a_schema_of_the_users_own_is_refused() -> None:
    with pytest.raises(BadOption, match="Leave schema"):
        _source().reader(StructType().add("value", StringType()))


def test_the_initial_offset_is_always_the_same_and_asks_nobody(cluster: Any) -> None:
    reader = _stream_reader()
    assert reader.initialOffset() == reader.initialOffset() == INITIAL
    assert cluster.asked == []


def test_nothing_new_is_the_same_text_again(cluster: Any) -> None:
    reader = _stream_reader()
    first = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), ReadAllAvailable())))
    again = reader.latestOffset(first, ReadAllAvailable())
    assert json.dumps(again) == json.dumps(first)


def test_a_batch_from_an_offset_to_itself_is_empty(cluster: Any) -> None:
    """Spark plans one when a query is resumed."""
    reader = _stream_reader()
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.partitions(first, first) == []
    (task,) = reader.partitions(reader.initialOffset(), first)
    assert sum(one.end - one.start for one in task.ranges) == 15  # type: ignore[attr-defined]


def test_limits_are_told_to_spark_and_obeyed_unless_it_wants_everything(cluster: Any) -> None:
    assert _stream_reader().getDefaultReadLimit() == ReadAllAvailable()
    assert _stream_reader(minOffsetsPerTrigger="3").getDefaultReadLimit() == ReadMinRows(3)
    reader = _stream_reader(maxOffsetsPerTrigger="4")
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    limited = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert sum(limited["to"]["a"].values()) == 4
    everything = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert everything["to"] == {"a": {"0": 10, "1": 5}}


def test_trap_6_a_stream_says_that_it_can_end_with_what_is_there(cluster: Any) -> None:
    reader = _stream_reader()
    assert isinstance(reader, SupportsTriggerAvailableNow)
    reader.prepareForTriggerAvailableNow()
    cluster.grow("a", 0, 100)
    found = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert found["to"] == {"a": {"0": 10, "1": 5}}


def test_the_lag_can_be_seen(cluster: Any) -> None:
    assert _stream_reader().reportLatestOffset()["to"] == {"a": {"0": 10, "1": 5}}


def test_a_commit_tells_the_group(cluster: Any) -> None:
    reader = _stream_reader(**{"group.id": "g"})
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.commit(reader.initialOffset())
    assert cluster.committed == []
    reader.commit(first)
    assert len(cluster.committed) == 1


def test_the_kafka_door_is_asked_for_only_if_it_was_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    class _Doors:
        kafka = "found:1"

    def doors(kafka: str | None, url: str | None, patience_s: float) -> _Doors:
        asked.append(url)
        return _Doors()

    monkeypatch.setattr(readers, "doors", doors)
    assert readers.kafka_of(Options(kafka="given:1")) == "given:1"
    assert readers.kafka_of(Options(url="http://n")) == "found:1"
    assert asked == ["http://n"]
