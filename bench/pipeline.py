"""The connector against Spark's own Parquet on the same rows: batch, stream, write, and the memory of a worker.

A stream of Parquet has ten files and takes one a trigger, so that both sides pay for as many triggers. Spark's own
Kafka connector does the same on Apache Kafka, where its jars can be had.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AdminClient, NewTopic

from bench.compare.spark_load import CONNECTOR
from bench.maven import maven_jars
from bench.node_process import NodeProcess
from bench.pipeline_cpu import cpu_figure
from bench.pipeline_prepared import prepared_rows
from bench.pipeline_visible import visible_figure
from bench.report import Figure, alternate
from goqueue.base.limits import MIB
from goqueue.pipeline.session import session
from tests.door.kafka.apache import SHARE_VERSION, ApacheKafka, find_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 5_000_000
SIZE = 200
PARTITIONS = 4
TRIGGER = 500_000
WRITTEN = 2_000_000
ROUNDS = 5
BATCH_BAR = 0.75
STREAM_BAR = 0.85
WRITE_BAR = 0.95
GROWTH_MIB_MAX = 64
DEADLINE_S = 600
KEY = "key-00042"  # one of ten thousand


class Bench:
    """A full topic at an address, the same rows as Parquet, and a session. `kind` is Spark's format for the topic."""

    def __init__(self, root: Path, address: str, spark: SparkSession, kind: str = "goqueue") -> None:
        self.root = root
        self.address = address
        self.spark = spark
        self.kind = kind
        self.parquet = str(root / "rows.parquet")
        self.written = 0

    def topic(self, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        for done in admin.create_topics([NewTopic(name, PARTITIONS)]).values():
            done.result(60)

    def fill(self) -> None:
        self.topic("rows")
        command = [sys.executable, "-m", "bench.pipeline_fill", self.address, "rows", str(ROWS), str(SIZE)]
        subprocess.run(command, check=True, timeout=DEADLINE_S)

    def read(self, **more: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": self.address, "subscribe": "rows", **more}
        return self.spark.read.format(self.kind).options(**options).load()

    # --- what is timed: rows a second ------------------------------------------------------------------------

    def batch(self) -> float:
        return _rate(ROWS, lambda: _discard(self.read()))

    def batch_of_prepared(self) -> float:
        return _rate(ROWS, lambda: _discard(prepared_rows(self.spark, ROWS, SIZE, PARTITIONS)))

    def batch_of_parquet(self) -> float:
        return _rate(ROWS, lambda: _discard(self.spark.read.parquet(self.parquet)))

    def stream(self) -> float:
        options = {"subscribe": "rows", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(TRIGGER)}
        source = self.spark.readStream.format(self.kind).option("kafka.bootstrap.servers", self.address)
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
        sink = self._some().write.format(self.kind).option("kafka.bootstrap.servers", self.address)
        return _rate(WRITTEN, lambda: sink.option("topic", topic).mode("append").save())

    def write_parquet(self) -> float:
        self.written += 1
        place = str(self.root / f"written-{self.kind}-{self.written}.parquet")
        return _rate(WRITTEN, lambda: self._some().write.parquet(place))

    def _some(self) -> DataFrame:
        return self.spark.read.parquet(self.parquet).select("key", "value").limit(WRITTEN).repartition(PARTITIONS)


def spark_figures(root: Path) -> Iterator[Figure]:
    brokers, connector = _apache(root.resolve() / "apache")
    with NodeProcess(root / "data") as node, _session(connector) as spark:
        bench = Bench(root, node.kafka, spark)
        bench.fill()
        _as_parquet(bench)
        yield from _figures(bench, (BATCH_BAR, STREAM_BAR, WRITE_BAR))
        yield _against("  rows that a Python source has ready", bench.batch_of_prepared, bench.batch_of_parquet, None)
        yield cpu_figure("  processor time for a row of a read", ROWS, node.pid, bench.batch, bench.batch_of_parquet)
        yield from _narrow(bench)
        yield from _memory(bench)
        yield _visible(bench, "publish to visible through a stream, 10,000 a second", True)
        if brokers is None or not connector:
            yield Figure("Spark's own Kafka connector on Apache Kafka", "left out", "there are no jars")
            return
        with ApacheKafka(brokers, root.resolve() / "apache") as kafka:
            theirs = Bench(root, kafka.address, spark, "kafka")
            theirs.fill()
            yield Figure(f"Spark's own Kafka connector on Apache Kafka {SHARE_VERSION}", "")
            yield from _figures(theirs, (None, None, None))
            yield _visible(theirs, "publish to visible through a stream, at least once", False)


def _figures(bench: Bench, bars: Sequence[float | None]) -> Iterator[Figure]:
    batch, stream, write = bars
    yield _against(f"read {ROWS:,} messages of {SIZE} bytes", bench.batch, bench.batch_of_parquet, batch)
    yield _against(f"  as a stream, {TRIGGER:,} a trigger", bench.stream, bench.stream_of_parquet, stream)
    yield _against(f"write {WRITTEN:,} of them to a topic", bench.write, bench.write_parquet, write)


def _against(name: str, ours: Callable[[], float], parquet: Callable[[], float], bar: float | None) -> Figure:
    rate, other, ratio = alternate(ours, parquet, ROUNDS)
    against = f"{ratio:.2f} of Parquet ({other:,.0f})"
    if bar is None:
        return Figure(name, f"{rate:,.0f} row/s", against)
    return Figure(name, f"{rate:,.0f} row/s", against, f"at least {bar}", ratio >= bar)


def _visible(bench: Bench, name: str, has_bar: bool) -> Figure:
    bench.topic("paced")
    bench.topic("seen")
    return visible_figure(bench.root, bench.spark, bench.kind, bench.address, name, has_bar)


# --- reads of less ----------------------------------------------------------------------------------------------


def _narrow(bench: Bench) -> Iterator[Figure]:
    """How many times as fast as a read of everything."""
    tenth = _middle(bench)
    reads = {
        "  of it the columns partition and offset": lambda: bench.read(columns="partition,offset"),
        "  of it one key": lambda: bench.read(pushFilters="true").where(f"key = binary('{KEY}')"),
        "  of it about a tenth, by time": lambda: bench.read(**tenth),
    }
    for name, read in reads.items():
        yield _beside_full(bench, name, read)


def _beside_full(bench: Bench, name: str, read: Callable[[], DataFrame]) -> Figure:
    part = read().count() / ROWS
    _, _, ratio = alternate(lambda: _rate(ROWS, lambda: _discard(read())), bench.batch, ROUNDS)
    return Figure(name, f"{ratio:.1f} x", f"as fast as all; {part:.2%} of the rows", "faster", ratio > 1)


def _middle(bench: Bench) -> dict[str, str]:
    """Options for a tenth of the messages, by their times."""
    frame = bench.spark.read.parquet(bench.parquet).selectExpr("unix_millis(timestamp) as ms")
    first, last = frame.approxQuantile("ms", [0.45, 0.55], 0.001)
    return {"startingTimestamp": str(int(first)), "endingTimestamp": str(int(last))}


def _memory(bench: Bench) -> Iterator[Figure]:
    """A worker that reads a tenth of the topic, and one that reads all of it."""
    few = _peak(lambda: _discard(bench.read(endingOffsets=_offsets("rows", ROWS // PARTITIONS // 10))))
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
def _session(jars: Sequence[Path]) -> Iterator[SparkSession]:
    settings = {"spark.driver.memory": "3g", **({"spark.jars": ",".join(map(str, jars))} if jars else {})}
    spark = session("bench", "local[*]", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _apache(root: Path) -> tuple[Path | None, list[Path]]:
    """Kafka's jars, and those of Spark's connector for it."""
    for place in (root, root / "connector"):
        place.mkdir(parents=True)
    found = maven_jars(root / "connector", CONNECTOR, alone=True)
    return find_jars(root, SHARE_VERSION), [] if found is None else sorted(found.glob("*.jar"))


def _as_parquet(bench: Bench) -> None:
    """The topic's rows in ten files."""
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
