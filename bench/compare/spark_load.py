"""Spark writes messages and reads them back, at once and as a stream: out of a topic by a connector, or out of Parquet.

One session serves all systems, so that its JVM is as warm for each. It lives until the program ends, which is why this
scenario comes last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from bench.compare.model import CheckFailed
from bench.maven import maven_jars
from bench.peers.server import PeerMissing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SIZE: Final = 200
TRIGGERS: Final = 5  # of a stream; as many partitions are written, and as many files of Parquet, one each
_WAIT_S: Final = 600
# Without what they need themselves: Spark has it. The newest of each that Maven Central has.
CONNECTOR: Final = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
]


class Table(Protocol):
    """Where Spark writes to and reads from; nobody used it before."""

    def write(self, frame: DataFrame) -> None: ...

    def read(self, spark: SparkSession) -> DataFrame: ...

    def stream(self, spark: SparkSession, rows: int) -> DataFrame:
        """In `TRIGGERS` portions."""


class Topic:
    """`connector` is the name of a format: goqueue or kafka."""

    def __init__(self, connector: str, address: str, topic: str) -> None:
        self._format = connector
        self._topic = topic
        self._options = {"kafka.bootstrap.servers": address}

    def write(self, frame: DataFrame) -> None:
        writer = frame.write.format(self._format).options(**self._options).option("topic", self._topic)
        writer.mode("append").save()

    def read(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format(self._format).options(**self._options)
        return reader.option("subscribe", self._topic).load()

    def stream(self, spark: SparkSession, rows: int) -> DataFrame:
        reader = spark.readStream.format(self._format).options(**self._options).option("subscribe", self._topic)
        portion = str(rows // TRIGGERS)
        return reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", portion).load()


class Parquet:
    def __init__(self, place: Path) -> None:
        self._place = str(place)

    def write(self, frame: DataFrame) -> None:
        frame.write.parquet(self._place)

    def read(self, spark: SparkSession) -> DataFrame:
        return spark.read.parquet(self._place)

    def stream(self, spark: SparkSession, rows: int) -> DataFrame:
        reader = spark.readStream.schema(self.read(spark).schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(self._place)


def measure(table: Table, rows: int, scratch: Path) -> dict[str, float]:
    """Rows a second of each; then all are read once more and checked."""
    spark = session(scratch)
    with messages(spark, rows) as frame:
        found = {"spark-write": _rate(rows, lambda: table.write(frame))}
    found["spark-read"] = _rate(rows, lambda: _discard(table.read(spark)))
    seen: list[int] = []
    checkpoint = scratch / f"checkpoint-{time.monotonic_ns()}"
    found["spark-stream"] = _rate(rows, lambda: seen.append(_drain(table.stream(spark, rows), checkpoint)))
    if seen != [rows]:
        raise CheckFailed(f"{rows} messages were written, and the stream had {seen[0]}")
    check(table.read(spark), rows)
    return found


def check(frame: DataFrame, rows: int) -> None:
    """Every message is there, once, as it was written: the same bytes as those of `bodies.body`."""
    number = "cast(substring(cast(value as string), 1, 8) as long)"
    wrong = f"count_if(value is null or not cast(value as string) <=> {_body('number')}) as damaged"
    counted = frame.selectExpr("value", f"{number} as number").selectExpr(
        "count(1) as came", "count(distinct number) as different", "min(number) as first", "max(number) as last", wrong
    )
    found = counted.first()
    assert found is not None
    if found["damaged"]:
        raise CheckFailed(f"{found['damaged']} messages came back damaged")
    if found["came"] != found["different"]:
        raise CheckFailed(f"{found['came'] - found['different']} messages came twice")
    if (found["came"], found["first"], found["last"]) != (rows, 0, rows - 1):
        raise CheckFailed(f"{rows} messages were written, and {found['came']} came")


def connector_jars(scratch: Path) -> list[str]:
    """None of them if they cannot be had."""
    place = scratch.resolve() / "connector"
    place.mkdir(parents=True, exist_ok=True)
    jars = maven_jars(place, CONNECTOR, alone=True)
    return [] if jars is None else sorted(map(str, jars.glob("*.jar")))


def require_connector(scratch: Path) -> None:
    """Raises PeerMissing where Spark's connector for Kafka cannot be had."""
    if not session(scratch).conf.get("spark.jars", ""):
        raise PeerMissing("Spark's connector for Kafka cannot be had; KAFKA_FETCH=1 lets Maven fetch it")


@cache
def _session(jars: tuple[str, ...]) -> SparkSession:
    from goqueue.pipeline.session import session

    more = {"spark.jars": ",".join(jars)} if jars else {}
    spark = session("compare", "local[*]", settings={"spark.driver.memory": "3g", **more})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


_jars: dict[str, tuple[str, ...]] = {}


def session(scratch: Path) -> SparkSession:
    if find_spec("pyspark") is None:
        raise PeerMissing("pyspark is not installed")
    if "jars" not in _jars:
        _jars["jars"] = tuple(connector_jars(scratch))
    return _session(_jars["jars"])


@contextmanager
def messages(spark: SparkSession, rows: int) -> Iterator[DataFrame]:
    """In memory before anything is timed, in the partitions that all write; the memory is given back."""
    made = spark.range(0, rows, 1, TRIGGERS)
    frame = made.selectExpr(f"cast({_digits('id')} as binary) as key", f"cast({_body('id')} as binary) as value")
    frame = frame.persist()
    try:
        if frame.count() != rows:
            raise RuntimeError("Spark made another number of rows")
        yield frame
    finally:
        frame.unpersist(blocking=True)


def _digits(column: str) -> str:
    return f"lpad(cast({column} as string), 8, '0')"


def _body(column: str) -> str:
    """`bodies.body` in SQL."""
    digits = _digits(column)
    return f"concat({digits}, lpad(lower(hex(crc32(cast({digits} as binary)))), 8, '0'), repeat('x', {SIZE - 16}))"


def _discard(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _drain(frame: DataFrame, checkpoint: Path) -> int:
    """How many rows came."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(_WAIT_S):
        query.stop()
        raise CheckFailed(f"the stream did not end within {_WAIT_S} s")
    return sum(int(one["numInputRows"]) for one in query.recentProgress)


def _rate(rows: int, work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return rows / (time.perf_counter() - began)
