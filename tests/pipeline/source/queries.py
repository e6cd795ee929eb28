"""What streaming queries read, batch by batch, and waiting for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.node_process import NodeProcess
from tests.pipeline.topics import Stored
from tests.waiting import WAIT_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Collected:
    """For `foreachBatch`: the rows of every batch. A batch that is repeated takes the place of the first attempt."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Stored]] = {}
        self.attempts: list[int] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = frame.select("partition", "offset", "key", "value", "topic").collect()
        self.attempts.append(batch)
        self.batches[batch] = [Stored(row[0], row[1], _bytes(row[2]), _bytes(row[3])) for row in rows]
        self.topics = {row[4] for row in rows} | getattr(self, "topics", set())

    @property
    def rows(self) -> list[Stored]:
        """All of them, by place."""
        return sorted(row for rows in self.batches.values() for row in rows)

    @property
    def values(self) -> list[bytes]:
        return sorted(row.value or b"" for row in self.rows)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def read(spark: SparkSession, node: NodeProcess, **options: Any) -> DataFrame:
    return spark.read.format("goqueue").options(**_options(node, options)).load()


def stream(spark: SparkSession, node: NodeProcess, **options: Any) -> DataFrame:
    return spark.readStream.format("goqueue").options(**_options(node, options)).load()


def _options(node: NodeProcess, options: dict[str, Any]) -> dict[str, Any]:
    """Underscores stand for dots."""
    return {"kafka.bootstrap.servers": node.kafka, **{name.replace("_", "."): one for name, one in options.items()}}


def start(frame: DataFrame, into: Collected, checkpoint: Path) -> StreamingQuery:
    """A query that goes on until it is stopped."""
    return frame.writeStream.foreachBatch(into).option("checkpointLocation", str(checkpoint)).start()


def until(is_true: Callable[[], bool], query: StreamingQuery, deadline_s: float = WAIT_S) -> None:
    """Waits; raises what ended the query, if it is that."""

    def holds() -> bool:
        assert is_true() or query.isActive, query.exception()
        return is_true()

    wait_until(holds, lambda: f"{query.status}, {query.lastProgress}", deadline_s)
