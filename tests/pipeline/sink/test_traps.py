"""What Spark does to sinks that one would not expect, each held by a test."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.pipeline.datasource import GoQueueSource
from goqueue.pipeline.sink.staged_sets import _client
from tests.pipeline.running import run_once
from tests.pipeline.sink.numbers import ROWS, feed, found, into, numbers
from tests.pipeline.sink.proxies import Answer, proxy
from tests.pipeline.topics import contents, make_topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("watched")]
MESSAGES = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


def test_trap_4_nothing_is_open_before_work_and_everything_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes these objects several times, pickles them, and never stops or closes one."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    write = GoQueueSource({"kafka.bootstrap.servers": "127.0.0.1:9", "topic": "t"})
    read = GoQueueSource({"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t"})
    made = [
        write.writer(MESSAGES, False),
        write.streamWriter(MESSAGES, False),
        read.reader(read.schema()),
        read.streamReader(read.schema()),
    ]
    for one in (write, read, *made):
        assert type(pickle.loads(pickle.dumps(one))) is type(one)


def test_trap_4_a_worker_keeps_one_connection_and_what_is_left_alone_expires(module_node: NodeProcess) -> None:
    assert _client(module_node.url) is _client(module_node.url)
    make_topic(module_node, "left-alone")
    with Client(module_node.url) as client:
        client.stage("q-left-alone", 0, "0", timeout_s=0.5)
        assert len(client.staged("q-left-alone").open) == 1
        wait_until(lambda: not client.staged("q-left-alone").open, seconds=30)


def test_trap_8_an_abort_after_a_commit_that_raised_undoes_nothing(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """The node commits, its answer is lost for good, Spark aborts the batch and the query fails; then it runs again."""
    topic = make_topic(module_node, "trap-8")
    asked: list[str] = []
    broken = threading.Event()
    broken.set()

    def porter(method: str, path: str, ask: Callable[[], Answer]) -> Answer:
        asked.append(path.rpartition("/")[2])
        status, answer = ask()
        if path.endswith("/commit") and broken.is_set():
            return 500, b"the answer was lost"
        return status, answer

    feed(tmp_path / "in", 0, 1)
    with proxy(module_node.url, porter) as url:
        writer = into(module_node, topic, numbers(spark, tmp_path / "in")).option("url", url)
        with pytest.raises(Exception, match="http-500"):
            run_once(writer, tmp_path / "checkpoint")
        assert asked[-2:] == ["commit", "abort"], "Spark aborts where the commit raised"
        assert found(contents(module_node, topic)) == list(range(ROWS))
        broken.clear()
        feed(tmp_path / "in", 1, 1)
        run_once(writer, tmp_path / "checkpoint")
    assert found(contents(module_node, topic)) == list(range(2 * ROWS))


def dying_first(url: str, topic: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The first attempt at every partition dies when some of its rows are in the log."""

    def passed_on(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 3 and context.attemptNumber() == 0:
                with Client(url) as client:
                    wait_until(lambda: client.read(topic, isolation="read_uncommitted", limit=1).messages, seconds=30)
                raise RuntimeError("the first attempt dies")
            yield batch

    return passed_on


def test_trap_9_what_a_failed_attempt_wrote_is_never_seen(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """A retried task runs write() again, and only the winner's message arrives at the commit."""
    topic = make_topic(module_node, "trap-9")
    feed(tmp_path / "in", 0, 1)
    few = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(few)
    spark.conf.set(few, "5")
    try:
        frame = numbers(spark, tmp_path / "in").selectExpr("n", f"REPEAT(' ', {100_000}) AS much")
        dying = frame.mapInArrow(dying_first(module_node.url, topic), "n BIGINT, much STRING")
        rows = dying.selectExpr("CONCAT(n, much) AS value").writeStream.format("goqueue")
        run_once(rows.option("url", module_node.url).option("topic", topic), tmp_path / "checkpoint")
    finally:
        spark.conf.set(few, str(before))
    assert found(contents(module_node, topic)) == list(range(ROWS))
    assert len(contents(module_node, topic, "read_uncommitted")) > ROWS, "the first attempts did write"


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("overwrite", r"cannot be overwritten. Write with .mode\('append'\)"),
        ("errorifexists", 'cannot be written in the "ErrorIfExists" mode. Please use either the "Append"'),
        ("ignore", 'cannot be written in the "Ignore" mode'),
    ],
)
def test_trap_10_only_append_is_taken_and_the_default_mode_is_refused(
    spark: SparkSession, module_node: NodeProcess, mode: str, told: str
) -> None:
    topic = make_topic(module_node, f"trap-10-{mode}")
    rows = spark.range(1).selectExpr("CAST(id AS STRING) AS value")
    writer = rows.write.format("goqueue").option("url", module_node.url).option("topic", topic)
    with pytest.raises(Exception, match=told):
        writer.mode(mode).save()
    assert contents(module_node, topic) == []
