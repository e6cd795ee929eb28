"""The connector on executors that are processes of their own, each with its own copy of the code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from tests.pipeline.topics import fill, make_topic

# Two more JVMs start, and every executor loads the code anew.
pytestmark = [pytest.mark.xdist_group("jvm"), pytest.mark.slow, pytest.mark.timeout(420)]

_JOB = '''
import json, os, sys
from goqueue.pipeline.session import session

spark = session("tests", "local-cluster[2,1,1024]", settings={"spark.driver.memory": "1g"})
given = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "spread"}
frame = spark.read.format("goqueue").options(minPartitions=4, **given).load()


def told(rows):
    """The daemon behind the task's process, of which each executor has one, and what the task read."""
    yield os.getppid(), [(row.partition, row.offset, bytes(row.value).decode()) for row in rows]


tasks = frame.rdd.mapPartitions(told).collect()
query = (
    spark.readStream.format("goqueue").options(startingOffsets="earliest", maxOffsetsPerTrigger=1000, **given).load()
    .writeStream.format("memory").queryName("streamed").option("checkpointLocation", sys.argv[2])
    .trigger(availableNow=True).start()
)
query.awaitTermination(120)
streamed = spark.sql("select count(*), count(distinct partition, offset) from streamed").first()
print(json.dumps({
    "executors": len({daemon for daemon, _ in tasks}),
    "rows": sorted(row for _, rows in tasks for row in rows),
    "streamed": list(streamed),
    "batches": query.lastProgress["batchId"] + 1,
}))
spark.stop()
'''


def test_the_connector_reads_on_separate_executors(node: NodeProcess, tmp_path: Path) -> None:
    fill(node, make_topic(node, "spread", 4), [b"%d" % number for number in range(2_000)])
    command = [sys.executable, "-c", _JOB, node.kafka, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=360, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["executors"] == 2
    assert sorted(int(value) for _, _, value in found["rows"]) == list(range(2_000))
    assert len({(partition, offset) for partition, offset, _ in found["rows"]}) == 2_000
    assert (found["streamed"], found["batches"]) == ([2_000, 2_000], 2)
