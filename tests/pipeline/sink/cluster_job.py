"""A job for executors that have Spark's own needs and nothing of ours; run by `test_cluster`.

Two batches of rows go into a topic. In the second an attempt kills its executor when some of its rows are written.
What the executors loaded is printed as JSON. Executors have no `tests` to import; what they run goes there by value.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from goqueue.client import Client
from goqueue.pipeline.session import py_files, session
from tests import waiting
from tests.pipeline.running import run_once
from tests.pipeline.sink.numbers import ROWS, numbers
from tests.waiting import wait_until

PAD = 100_000


def killing(url: str, topic: str, mark: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def passed_on(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        is_victim = (context.getLocalProperty("streaming.sql.batchId"), context.partitionId()) == ("1", 0)
        for number, batch in enumerate(batches):
            # Once: the shuffle's files die too, so Spark repeats the stage and counts attempts from 0 again.
            if number == 3 and is_victim and not mark.exists():
                mark.touch()
                _kill_executor(url, topic)
            yield batch

    return passed_on


def _kill_executor(url: str, topic: str) -> None:
    """When some of this task's rows are in the log. A worker's parent is a daemon, whose parent is the JVM."""
    others = ROWS + 2 + ROWS // 2  # the first batch with its two markers, and the other task's half of the second
    with Client(url) as client:
        wait_until(lambda: client.topic(topic).partitions[0].end_offset > others, "nothing was written")
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)


def loaded(batches: Iterator[Any]) -> Iterator[Any]:
    """What an executor's Python runs on."""
    import msgspec
    import pyarrow

    import goqueue

    for _ in batches:
        facts = [sys.executable, goqueue.__file__, msgspec.__file__, str(os.getppid())]
        yield pyarrow.record_batch({"fact": facts})


def main(url: str, topic: str, directory: Path, executors_path: str) -> None:
    pack = py_files(directory / "pack")
    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PATH": executors_path,
        "spark.executorEnv.PYTHONPATH": pack.name,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
    }
    cloudpickle.register_pickle_by_value(waiting)  # the executors have none of our packages
    spark = session("cluster", "local-cluster[2,1,1024]", settings=settings)
    spark.sparkContext.addPyFile(str(pack))
    facts = spark.range(2, numPartitions=2).mapInArrow(loaded, "fact STRING").collect()
    frame = numbers(spark, directory / "in").selectExpr("n", f"REPEAT(' ', {PAD}) AS much")
    rows = frame.mapInArrow(killing(url, topic, directory / "killed"), "n BIGINT, much STRING").selectExpr(
        "CONCAT(n, much) AS value"
    )
    writer = rows.writeStream.format("goqueue").option("url", url).option("topic", topic)
    run_once(writer, directory / "checkpoint", deadline_s=200)
    print(json.dumps([row.fact for row in facts]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
