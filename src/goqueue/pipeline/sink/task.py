"""Who a task is: what its staged rows are called after."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.pipeline.link.errors import PipelineError

_QUERY: Final = "sql.streaming.queryId"  # stays the same over restarts, unlike the run's id
_BATCH: Final = "streaming.sql.batchId"
_LANES: Final = 8


class Task(msgspec.Struct, frozen=True):
    """One attempt at one partition. `query` and `batch` are None outside of streams."""

    partition: int
    attempt: int
    query: str | None = None
    batch: int | None = None

    def stream_batch(self) -> tuple[str, int]:
        """The query and the batch it works for."""
        if self.query is None or self.batch is None:
            raise PipelineError(
                "Spark does not tell which query and batch this task works for, so its rows cannot be written exactly "
                "once. Use a micro-batch trigger, or foreachBatch with the options txnAppId and txnVersion."
            )
        return self.query, self.batch


def this_task() -> Task:
    """The one that runs here."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise PipelineError("Rows are written by Spark's tasks; this is none.")
    batch = context.getLocalProperty(_BATCH)
    return Task(
        context.partitionId(),
        attempt_number(context.attemptNumber(), context.taskAttemptId()),
        context.getLocalProperty(_QUERY),
        None if batch is None else int(batch),
    )


def attempt_number(attempt: int, task: int) -> int:
    """What tells attempts at one partition apart that may live at the same time, and does not grow from batch to batch.

    Spark counts attempts, also speculative ones, anew when it repeats a stage, and does not tell which repetition it
    is. The first ones may still be at work then. A small part of the task's own number, which no two tasks share, keeps
    most of these apart. Where it does not, the later one shuts the earlier out: a commit is refused, never doubled.
    """
    return attempt * _LANES + task % _LANES
