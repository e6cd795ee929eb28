"""The sink as Spark sees it. One object goes to the tasks and another commits, so they hold nothing but values."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.options import Options
from goqueue.pipeline.sink.columns import columns_to_write
from goqueue.pipeline.sink.task import this_task
from goqueue.pipeline.sink.writing import SinkTarget, TaskPart, commit_parts, give_up, stage_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


_AGAIN: Final = "Start the query again: it goes on there, and nothing is lost or doubled."
_AGAIN_NAMED: Final = "Repeat the write with the same txnAppId and txnVersion: nothing is lost or doubled."
_LOOK: Final = "Look into the topic before you repeat the write; with txnAppId and txnVersion a repeat is always safe."


class CannotOverwrite(PipelineError):
    """A topic only grows."""

    def __init__(self) -> None:
        super().__init__(
            "Messages of a topic cannot be overwritten. Write with .mode('append'); to start anew, use a new topic."
        )


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """What a task tells the driver."""

    part: TaskPart


def batch_writer(options: Options, schema: StructType, overwrite: bool = False) -> BatchWriter:
    """For `DataFrame.write`. With txnAppId and txnVersion a repeated write changes nothing; otherwise each is new."""
    if overwrite:
        raise CannotOverwrite
    if options.txn_app_id is not None and options.txn_version is not None:
        return BatchWriter(_target(options, schema), options.txn_app_id, options.txn_version, _AGAIN_NAMED)
    return BatchWriter(_target(options, schema), f"spark-{uuid.uuid4()}", 0, _LOOK)


def stream_writer(options: Options, schema: StructType) -> StreamWriter:
    """For `DataFrame.writeStream`. The complete mode appends every result anew, as Spark's Kafka sink does."""
    if options.txn_app_id is not None:
        raise PipelineError("A stream counts its batches by itself; txnAppId and txnVersion are for DataFrame.write.")
    return StreamWriter(_target(options, schema))


def _target(options: Options, schema: StructType) -> SinkTarget:
    return SinkTarget(options.kafka, options.url, options.topic, columns_to_write(schema, options.topic))


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[TaskPart]:
    return [message.part for message in messages if isinstance(message, StagedPart)]


class BatchWriter(DataSourceArrowWriter):
    """One write, told apart from all others by its owner and batch."""

    def __init__(self, target: SinkTarget, owner: str, batch: int, if_not: str) -> None:
        self._target = target
        self._owner = owner
        self._batch = batch
        self._if_not = if_not

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        return StagedPart(stage_rows(self._target, self._owner, self._batch, this_task(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_parts(self._target, _parts(messages), self._if_not)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        give_up(self._target, self._owner, self._batch)


class StreamWriter(DataSourceStreamArrowWriter):
    """All batches of a query. The driver learns from the tasks which query it is."""

    def __init__(self, target: SinkTarget) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        task = this_task()
        query, batch = task.stream_batch()
        return StagedPart(stage_rows(self._target, query, batch, task, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        commit_parts(self._target, _parts(messages), _AGAIN)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        # No task came to an end: whose batch it was is not known, and each of them dropped its own rows.
        for owner in sorted({part.owner for part in _parts(messages)}):
            give_up(self._target, owner, batchId)
