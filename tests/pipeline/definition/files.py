"""Pipelines of tests: a file beside a lake, run on the shared session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from goqueue.client import Client, NewMessage
from goqueue.pipeline.definition.performing import Asked, perform
from goqueue.pipeline.definition.planning import empty_frames, plan
from goqueue.pipeline.definition.reading import PipelineFile, read_file
from goqueue.pipeline.lake.reading import read_table
from goqueue.pipeline.running import Silent, Summary


def written(folder: Path, text: str, name: str = "shop.toml") -> PipelineFile:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return read_file(folder / name)


def check(spark: SparkSession, file: PipelineFile) -> None:
    with empty_frames(spark, file, file.place("lake"), {"url": "http://127.0.0.1:1"}) as empty:
        plan(spark, file, empty)


def run(spark: SparkSession, file: PipelineFile, node: NodeProcess, from_scratch: bool = False) -> Summary:
    return perform(spark, file, Asked({"url": node.url}, file.place("lake"), None, from_scratch), Silent())


def publish(node: NodeProcess, topic: str, rows: Sequence[Any], key: str | None = None) -> None:
    """Rows as JSON; a text goes as it is."""
    with Client(node.url) as client:
        if topic not in {one.name for one in client.topics()}:
            client.create_topic(topic, partitions=2)
        values = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        keys = [None if key is None or isinstance(row, str) else str(row[key]) for row in rows]
        if not rows:
            return
        client.publish_many(topic, [NewMessage(value, key=one) for value, one in zip(values, keys, strict=True)])


def messages(spark: SparkSession, node: NodeProcess, topic: str) -> list[tuple[str | None, Any]]:
    rows = spark.read.format("goqueue").option("url", node.url).option("subscribe", topic).load()
    found = rows.selectExpr("STRING(key) AS key", "STRING(value) AS value").collect()
    return sorted(((row.key, json.loads(row.value)) for row in found), key=str)


def table(spark: SparkSession, file: PipelineFile, name: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in read_table(spark, file.place(f"lake/{name}")).collect()]
