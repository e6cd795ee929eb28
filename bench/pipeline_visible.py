"""How long a message takes from its publish through a streaming query into another topic, for a reader of that."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer

from bench.report import Figure, percentile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATE = 10_000
SECONDS = 30
WARM_S = 10  # the first batches load what later ones find there
MEDIAN_S_MAX = 1.0
_SILENCE_S = 60


def visible_figure(root: Path, spark: SparkSession, kind: str, address: str, name: str, has_bar: bool) -> Figure:
    """`kind` is Spark's format, which reads the topic `paced` and writes to `seen`, both at that address."""
    with _copying(root / f"visible-{kind}", spark, kind, address), _reader(address) as reader:
        command = [sys.executable, "-m", "bench.pipeline_pace", address, "paced", str(RATE), str(SECONDS)]
        with subprocess.Popen(command) as load:
            late = sorted(_delays(reader, RATE * SECONDS)[RATE * WARM_S :])
        if load.returncode:
            raise RuntimeError("not everything was published")
    median, p99 = percentile(late, 0.5), percentile(late, 0.99)
    bar = f"median under {MEDIAN_S_MAX:g} s" if has_bar else ""
    return Figure(name, f"p50 {median:.2f} s", f"p99 {p99:.2f} s", bar, median < MEDIAN_S_MAX if has_bar else None)


@contextmanager
def _copying(root: Path, spark: SparkSession, kind: str, address: str) -> Iterator[None]:
    options = {"kafka.bootstrap.servers": address, "subscribe": "paced", "startingOffsets": "earliest"}
    frame = spark.readStream.format(kind).options(**options).load().select("value")
    sink = frame.writeStream.format(kind).option("kafka.bootstrap.servers", address).option("topic", "seen")
    query = sink.option("checkpointLocation", str(root)).start()
    try:
        yield
    finally:
        query.stop()


@contextmanager
def _reader(address: str) -> Iterator[Consumer]:
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "visible",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    reader.subscribe(["seen"])
    try:
        yield reader
    finally:
        reader.close()


def _delays(reader: Consumer, count: int) -> list[float]:
    """The age of each message when it comes, in seconds."""
    found: list[float] = []
    heard = time.monotonic()
    while len(found) < count:
        messages = reader.consume(10_000, 0.1)
        now = time.time()
        found += [now - int((one.value() or b"")[:20]) / 1e9 for one in messages if not one.error()]
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_S:
            raise RuntimeError(f"{len(found)} of {count} messages came")
    return found
