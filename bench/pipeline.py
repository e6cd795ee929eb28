"""The connector against Spark's own Parquet on the same rows: batch, stream, write, and the memory of a worker.

A stream of Parquet has ten files and takes one a trigger, so that both sides pay for as many triggers.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from bench.node_process import NodeProcess
from bench.report import Figure, alternate
from goqueue.base.limits import MIB
from goqueue.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 5_000_000
SIZE = 200
PARTITIONS = 4
TRIGGER = 500_000
WRITTEN = 2_000_000
ROUNDS = 5
BATCH_BAR = 0.5
STREAM_BAR = 0.4
WRITE_BAR = 0.4
GROWTH_MIB_MAX = 64
DEADLINE_S = 600


class Bench:
    """A node with a full topic, the same rows as Parquet, and a session."""

    def __init__(self, root: Path, node: NodeProcess, spark: SparkSession) -> None:
        self.root = root
        self.node = node
        self.spark = spark
        self.parquet = str(root / "rows.parquet")
        self.written = 0

    def topic(self, name: str) -> None:
        made = httpx.post(f"{self.node.url}/topics", json={"name": name, "num_partitions": PARTITIONS})
        made.raise_for_status()

    def read(self, end: int | None = None) -> DataFrame:
        ends = "latest" if end is None else _offsets("rows", end)
        options = {"kafka.bootstrap.servers": self.node.kafka, "subscribe": "rows", "endingOffsets": ends}
        return self.spark.read.format("goqueue").options(**options).load()

    # --- what is timed: rows a second ------------------------------------------------------------------------

    def batch(self) -> float:
        return _rate(ROWS, lambda: _discard(self.read()))

    def batch_of_parquet(self) -> float:
        return _rate(ROWS, lambda: _discard(self.spark.read.parquet(self.parquet)))

    def stream(self) -> float:
        options = {"subscribe": "rows", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(TRIGGER)}
        source = self.spark.readStream.format("goqueue").option("kafka.bootstrap.servers", self.node.kafka)
        return _rate(ROWS, lambda: self._drain(source.options(**options).load()))

    def stream_of_parquet(self) -> float:
        source = self.spark.readStream.schema(self.spark.read.parquet(self.parquet).schema)
        return _rate(ROWS, lambda: self._drain(source.option("maxFilesPerTrigger", 1).parquet(self.parquet)))

    def _drain(self, frame: DataFrame) -> None:
        checkpoint = str(self.root / f"checkpoint-{time.monotonic_ns()}")
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(DEADLINE_S):
            raise RuntimeError("the stream did not end")

    def write(self) -> float:
        self.written += 1
        topic = f"written-{self.written}"
        self.topic(topic)
        sink = self._some().write.format("goqueue").option("kafka.bootstrap.servers", self.node.kafka)
        return _rate(WRITTEN, lambda: sink.option("topic", topic).mode("append").save())

    def write_parquet(self) -> float:
        self.written += 1
        place = str(self.root / f"written-{self.written}.parquet")
        return _rate(WRITTEN, lambda: self._some().write.parquet(place))

    def _some(self) -> DataFrame:
        return self.spark.read.parquet(self.parquet).select("key", "value").limit(WRITTEN).repartition(PARTITIONS)


def spark_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "data") as node, _session() as spark:
        bench = Bench(root, node, spark)
        _fill(bench)
        yield _against(f"read {ROWS:,} messages of {SIZE} bytes", bench.batch, bench.batch_of_parquet, BATCH_BAR)
        yield _against(f"  as a stream, {TRIGGER:,} a trigger", bench.stream, bench.stream_of_parquet, STREAM_BAR)
        yield _against(f"write {WRITTEN:,} of them to a topic", bench.write, bench.write_parquet, WRITE_BAR)
        yield from _memory(bench)


def _against(name: str, ours: Callable[[], float], parquet: Callable[[], float], bar: float) -> Figure:
    rate, other, ratio = alternate(ours, parquet, ROUNDS)
    against = f"{ratio:.2f} of Parquet ({other:,.0f})"
    return Figure(name, f"{rate:,.0f} row/s", against, f"at least {bar}", ratio >= bar)


def _memory(bench: Bench) -> Iterator[Figure]:
    """A worker that reads a tenth of the topic, and one that reads all of it."""
    few = _peak(lambda: _discard(bench.read(ROWS // PARTITIONS // 10)))
    all_ = _peak(lambda: _discard(bench.read()))
    grown = (all_ - few) / MIB
    yield Figure(
        "the largest worker while it reads all",
        f"{all_ / MIB:,.0f} MiB",
        f"{grown:+,.0f} MiB beside a tenth of it",
        f"less than {GROWTH_MIB_MAX} MiB more",
        grown < GROWTH_MIB_MAX,
    )


# --- the parts --------------------------------------------------------------------------------------------------


@contextmanager
def _session() -> Iterator[SparkSession]:
    spark = session("bench", "local[*]", settings={"spark.driver.memory": "3g"})
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _fill(bench: Bench) -> None:
    """The topic first, then its rows as Parquet in ten files."""
    bench.topic("rows")
    command = [sys.executable, "-m", "bench.pipeline_fill", bench.node.kafka, "rows", str(ROWS), str(SIZE)]
    subprocess.run(command, check=True, timeout=DEADLINE_S)
    bench.read().repartition(10).write.parquet(bench.parquet)
    found = bench.spark.read.parquet(bench.parquet).count()
    if found != ROWS:
        raise RuntimeError(f"{ROWS} sent, {found} read")
    _discard(bench.spark.read.parquet(bench.parquet))


def _discard(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _rate(rows: int, work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return rows / (time.perf_counter() - began)


def _offsets(topic: str, end: int) -> str:
    ends = ", ".join(f'"{number}": {end}' for number in range(PARTITIONS))
    return f'{{"{topic}": {{{ends}}}}}'


def _peak(work: Callable[[], Any]) -> int:
    """The most memory that one of Spark's Python workers held meanwhile."""
    over = threading.Event()
    found = [0]

    def watch() -> None:
        while not over.wait(0.02):
            found[0] = max([found[0], *map(_resident_bytes, _workers())])

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        work()
    finally:
        over.set()
        watching.join()
    return found[0]


def _workers() -> list[Path]:
    return [one.parent for one in Path("/proc").glob("[0-9]*/cmdline") if b"pyspark.daemon" in _bytes(one)]


def _resident_bytes(process: Path) -> int:
    fields = _bytes(process / "statm").split()
    return int(fields[1]) * 4096 if len(fields) > 1 else 0


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended
        return b""
