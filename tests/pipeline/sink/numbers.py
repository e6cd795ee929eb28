"""A stream of numbers out of files, a file a batch, and which of them are in a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.node_process import NodeProcess
from tests.pipeline.topics import Stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

ROWS = 50  # a batch


def feed(directory: Path, first: int, batches: int) -> None:
    """Files that each become a batch; one numbering runs through them all."""
    directory.mkdir(exist_ok=True)
    for number in range(first, first + batches):
        lines = (json.dumps({"n": n}) for n in range(number * ROWS, (number + 1) * ROWS))
        (directory / f"{number:04}.json").write_text("\n".join(lines))


def numbers(spark: SparkSession, directory: Path) -> DataFrame:
    """A file a batch, two tasks a batch."""
    files = spark.readStream.schema("n BIGINT").option("maxFilesPerTrigger", "1").json(str(directory))
    return files.repartition(2)


def into(node: NodeProcess, topic: str, frame: DataFrame) -> DataStreamWriter:
    rows = frame.selectExpr("CAST(n % 7 AS STRING) AS key", "CAST(n AS STRING) AS value")
    return rows.writeStream.format("goqueue").option("kafka.bootstrap.servers", node.kafka).option("topic", topic)


def found(stored: Iterable[Stored]) -> list[int]:
    return sorted(int(one.value or b"-1") for one in stored)
