"""What Spark calls. Nothing is opened when these are made, for Spark makes them in many processes and copies them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from goqueue.pipeline.link.cluster import Cluster, cluster
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.options import Options
from goqueue.pipeline.source.batch import batch_ranges
from goqueue.pipeline.source.narrowing import Narrow
from goqueue.pipeline.source.offsets import INITIAL, mark_of
from goqueue.pipeline.source.planning import Wishes, plan
from goqueue.pipeline.source.rows import SourceReadOptions, TaskSlice, read_slice
from goqueue.pipeline.source.stream import Stream


def kafka_of(options: Options) -> str:
    """The Kafka door; a node is asked for it only if it was not given."""
    return options.kafka or doors(None, options.url, options.first_answer_ms / 1000).kafka


def cluster_of(options: Options) -> Cluster:
    """The node, with the patience that is asked for."""
    return cluster(kafka_of(options), options.patience_ms / 1000, options.first_answer_ms / 1000)


class BatchReader(DataSourceReader):
    """Everything between two edges, as it stands when the query is planned."""

    def __init__(self, options: Options, reading: SourceReadOptions) -> None:
        self._options = options
        self._reading = reading

    def partitions(self) -> list[InputPartition]:
        ranges = batch_ranges(cluster_of(self._options), self._options, self._narrow())
        return _slices(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_slice(partition, self._reading)

    def _narrow(self) -> Narrow | None:
        return None


class FilteringBatchReader(BatchReader):
    """Also reads less where filters allow it. Spark refuses any reader like this one unless its pushdown is on."""

    def __init__(self, options: Options, reading: SourceReadOptions) -> None:
        super().__init__(options, reading)
        self._filters = Narrow()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        return [one for one in filters if not self._filters.take(one)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_slice(partition, msgspec.structs.replace(self._reading, keys=self._filters.keys))

    def _narrow(self) -> Narrow:
        return self._filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's source. Its offsets are marks, as JSON."""

    def __init__(self, options: Options, reading: SourceReadOptions) -> None:
        self._options = options
        self._reading = reading
        self._stream: Stream | None = None  # in the driver, once it is asked something

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark cannot carry two limits at once, so any limit it hands back means all those of the options."""
        if self._options.offsets_min:
            return ReadMinRows(self._options.offsets_min)
        if self._options.offsets_max:
            return ReadMaxRows(self._options.offsets_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._live().until_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The start itself where there is nothing to do: Spark takes any other text for new data."""
        mark = self._live().next_mark(mark_of(start), not isinstance(limit, ReadAllAvailable))
        return start if mark is None else mark.as_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._live().latest().as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        last = mark_of(end)
        if start == end or last is None:
            return []
        return _slices(self._live().ranges(mark_of(start), last), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_slice(partition, self._reading)

    def commit(self, end: dict[str, Any]) -> None:
        mark = mark_of(end)
        if mark is not None:
            self._live().done(mark)

    def _live(self) -> Stream:
        if self._stream is None:
            self._stream = Stream(cluster_of(self._options), self._options)
        return self._stream


def _slices(ranges: Sequence[OffsetRange], options: Options) -> list[InputPartition]:
    wishes = Wishes(options.min_partitions, options.max_records_per_partition)
    return [TaskSlice(kafka_of(options), task) for task in plan(ranges, wishes)]
