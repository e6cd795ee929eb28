"""The connector over Spark Connect: a thin client, and a server that runs the work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.node_process import NodeProcess
from tests.long import only_long
from tests.pipeline.definition.files import publish

pytest.importorskip("grpc_status", reason="Spark Connect needs more packages: pip install 'pyspark[connect]'")

pytestmark = [only_long, pytest.mark.xdist_group("jvm")]

JOB = """
import sys
import pyspark_goqueue
from pyspark.sql import SparkSession

url = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").config("spark.driver.memory", "1g").getOrCreate()
read = spark.read.format("goqueue").option("url", url)
rows = read.option("subscribe", "connected").load()
writer = rows.selectExpr("key", "value").write.format("goqueue").mode("append")
writer.option("url", url).option("topic", "copied").save()
print("counted", type(spark).__module__, rows.count(), read.option("subscribe", "copied").load().count())
"""


@pytest.mark.timeout(600)
def test_topics_are_read_and_written_over_connect(module_node: NodeProcess) -> None:
    publish(module_node, "connected", [{"id": n} for n in range(50)])
    publish(module_node, "copied", [])
    ran = subprocess.run([sys.executable, "-c", JOB, module_node.url], capture_output=True, text=True, timeout=300)
    assert "counted pyspark.sql.connect.session 50 50" in ran.stdout, ran.stderr[-3000:]
