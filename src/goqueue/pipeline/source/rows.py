"""What a task does: reads its ranges into record batches with exactly the columns that Spark was promised."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.source.errors import Misfit
from goqueue.pipeline.source.fields import CORRUPT

if TYPE_CHECKING:
    from goqueue.pipeline.source.typed import Decoder, Typed

log = logging.getLogger("goqueue.pipeline")

_PLACE: Final = ("topic", "partition", "offset")


class TaskSlice(InputPartition):
    """The ranges of one task, and where to read them."""

    def __init__(self, kafka: str, ranges: Sequence[OffsetRange]) -> None:
        self.kafka = kafka
        self.ranges = tuple(ranges)


class SourceReadOptions(msgspec.Struct, frozen=True):
    """How all tasks of a query read. Passes between processes."""

    columns: tuple[str, ...]
    isolation: str
    fail_on_loss: bool
    patience_s: float
    typed: Typed | None = None
    keep_corrupt: bool = False
    keys: tuple[bytes, ...] | None = None  # only messages with one of them


def read_slice(partition: InputPartition, how: SourceReadOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Spark makes up a partition of its own where a batch has none."""
    if not isinstance(partition, TaskSlice):
        return iter(())
    if how.typed is None:
        return _batches(partition, how, how.columns)
    return _typed_batches(partition, how, how.typed)


def _batches(part: TaskSlice, how: SourceReadOptions, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if how.fail_on_loss:
        yield from _read(part.kafka, part.ranges, how, columns)
        return
    # Topic by topic, so that one that is deleted takes no other with it.
    for topic, ranges in groupby(part.ranges, key=lambda one: one.topic):
        try:
            yield from _read(part.kafka, list(ranges), how, columns)
        except TopicNotFound:
            log.warning("Data was lost: the topic %s was deleted before it was read.", topic)


def _read(
    kafka: str, ranges: Sequence[OffsetRange], how: SourceReadOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    from goqueue.pipeline.link.reading import read_arrow  # only tasks need it, and processes are many

    return read_arrow(
        kafka,
        ranges,
        columns,
        isolation=how.isolation,
        fail_on_loss=how.fail_on_loss,
        on_loss=_warn,
        patience_s=how.patience_s,
        keys=how.keys,
    )


def _warn(wanted: OffsetRange, count: int) -> None:
    log.warning("Data was lost: %d offsets of %s are gone, or cannot be read as messages.", count, wanted.place)


# --- typed values -------------------------------------------------------------------------------------------------


def _typed_batches(part: TaskSlice, how: SourceReadOptions, typed: Typed) -> Iterator[pa.RecordBatch]:
    from goqueue.pipeline.source.typed import Decoder

    decoder = Decoder(typed)
    more = ("value", *_PLACE, *(("schemaId",) if typed.needs_ids else ()))
    columns = (*how.columns, *(name for name in more if name not in how.columns))
    for batch in _batches(part, how, columns):
        yield _typed(batch, how, decoder, typed.needs_ids)


def _typed(batch: pa.RecordBatch, how: SourceReadOptions, decoder: Decoder, has_ids: bool) -> pa.RecordBatch:
    values, misfits = decoder.column(batch["value"], batch["schemaId"] if has_ids else None)
    if misfits and not how.keep_corrupt:
        raise _misfit(batch, *next(iter(misfits.items())))
    columns = {name: values if name == "value" else batch[name] for name in how.columns}
    if how.keep_corrupt:
        columns[CORRUPT] = _corrupt(batch["value"], misfits)
    return pa.RecordBatch.from_pydict(columns)


def _corrupt(values: pa.Array, misfits: dict[int, str]) -> pa.Array:
    return pa.array([values[row].as_py() if row in misfits else None for row in range(len(values))], pa.binary())


def _misfit(batch: pa.RecordBatch, row: int, why: str) -> Misfit:
    topic, partition, offset = (batch[name][row].as_py() for name in _PLACE)
    return Misfit(
        f"The value of {topic}/{partition} at offset {offset} does not fit the registered schema: {why}. To read on, "
        f"set mode to 'permissive': then it is null, and its bytes are in the column {CORRUPT}."
    )
