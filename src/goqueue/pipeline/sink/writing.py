"""What the sink does, without Spark: rows are staged by tasks, and committed or given up by the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client.staged import StagedWriterId
from goqueue.pipeline.arrow.encode import BatchProducer
from goqueue.pipeline.link.cluster import PATIENCE_S
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import Fenced, PipelineError
from goqueue.pipeline.link.writing import StagedWriter
from goqueue.pipeline.sink.staged_sets import SinkRefused, StagedSetClient
from goqueue.pipeline.sink.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("goqueue.pipeline.sink")
_LAST_WORD_S: Final = 10.0  # for what is only tidying up


class SinkTarget(msgspec.Struct, frozen=True):
    """Where rows go: the node, the topic for all (or their own), and the columns that are written."""

    kafka: str | None
    url: str | None
    topic: str | None
    columns: tuple[str, ...]


class TaskPart(msgspec.Struct, frozen=True):
    """What one task staged; without a writer it had no rows."""

    owner: str
    batch: int
    rows: int
    writer: StagedWriterId | None = None


def stage_rows(target: SinkTarget, owner: str, batch: int, task: Task, rows: Iterable[pa.RecordBatch]) -> TaskPart:
    """Writes all rows of a task where nobody sees them yet. The node is asked for nothing before the first row."""
    filled = (some for some in rows if some.num_rows)
    first = next(filled, None)
    if first is None:
        return TaskPart(owner, batch, 0)
    there = doors(target.kafka, target.url, PATIENCE_S)
    named = _sets(target).stage(owner, batch, task.partition, task.attempt)
    try:
        count = _written(target, there.kafka, named, first, filled)
        # With the count the commit finds out if a power cut took rows that were acknowledged.
        return TaskPart(owner, batch, count, msgspec.structs.replace(named, messages=count))
    except Fenced:
        raise  # the name is another's by now
    except BaseException:
        _drop(target, named)
        raise


def _written(
    target: SinkTarget, kafka: str, named: StagedWriterId, first: pa.RecordBatch, others: Iterable[pa.RecordBatch]
) -> int:
    producer = BatchProducer(named.producer_id, named.epoch)
    writer = StagedWriter(kafka, named.transactional_id, producer, target.topic)
    names = list(target.columns)
    try:
        writer.write(first.select(names))
        for some in others:
            writer.write(some.select(names))
        return sum(writer.close().values())
    except BaseException:
        writer.abandon()
        raise


def _sets(target: SinkTarget, patience_s: float = PATIENCE_S) -> StagedSetClient:
    return StagedSetClient(lambda: doors(target.kafka, target.url, PATIENCE_S).url, patience_s)


def _drop(target: SinkTarget, named: StagedWriterId) -> None:
    try:
        _sets(target, _LAST_WORD_S).drop(named)
    except PipelineError as error:
        log.warning("%s stays staged until its batch ends or its time is up: %s", named.transactional_id, error)


def commit_parts(target: SinkTarget, parts: Sequence[TaskPart], if_not: str) -> None:
    """Makes everything visible, once: a repeat finds it done. Without rows too: what an earlier run left goes away.

    `if_not` tells the user what to do where it could not be.
    """
    if not parts:
        return
    owner, batch = _set_of(parts)
    writers = [part.writer for part in parts if part.writer is not None]
    try:
        ended = _sets(target).commit(owner, batch, writers)
    except PipelineError as error:
        raise SinkRefused(f"Batch {batch} of {owner} could not be committed: {error} {if_not}") from error
    rows = sum(part.rows for part in parts)
    if ended.outcome == "already":
        log.warning("Batch %d of %s was committed before; %d rows written again are dropped.", batch, owner, rows)
    else:
        log.info("Batch %d of %s: %d rows of %d writers committed.", batch, owner, rows, len(writers))


def _set_of(parts: Sequence[TaskPart]) -> tuple[str, int]:
    sets = {(part.owner, part.batch) for part in parts}
    if len(sets) != 1:
        raise PipelineError(f"Parts of {len(sets)} batches cannot be committed as one.")
    return sets.pop()


def give_up(target: SinkTarget, owner: str, batch: int) -> None:
    """Drops what is staged for the batch, unless it was committed: that is durable and stays.

    Something went wrong before, and that is what the user has to see. So this raises nothing.
    """
    try:
        ended = _sets(target, _LAST_WORD_S).abort(owner, batch)
    except PipelineError as error:
        log.warning("Batch %d of %s could not be given up; what is staged ends by itself: %s", batch, owner, error)
    else:
        message = "was committed all the same" if ended.outcome == "already committed" else "was given up"
        log.warning("Batch %d of %s %s; %d writers dropped.", batch, owner, message, ended.dropped)
