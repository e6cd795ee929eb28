"""Rows that break a rule: they change nothing for others, and are kept with what is known of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from goqueue.pipeline.definition.mistakes import PipelineFileError
from tests.pipeline.definition.files import check, publish, run, table, written
from tests.pipeline.topics import make_topic

pytestmark = pytest.mark.xdist_group("spark")

SEEN = """name = "seen"
[[source]]
name = "clicks"
topic = "timely-clicks"
columns = "id string, at timestamp"
watermark = "at 1 hour"
max_rows = 1
[[rule]]
name = "is-of-our-time"
view = "clicks"
must = "at < '2100-01-01'"
[[step]]
name = "firsts"
sql = "SELECT DISTINCT id, at FROM clicks"
[[sink]]
view = "firsts"
table = "firsts"
mode = "merge"
keys = ["id"]
"""


def test_a_row_that_breaks_a_rule_makes_no_other_row_late(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    make_topic(module_node, "timely-clicks")
    times = {"a": "2026-01-31T12:00:00Z", "far": "2126-01-31T12:00:00Z"}
    times |= {name: f"2026-01-31T12:0{number}:00Z" for number, name in enumerate("bc", 1)}
    publish(module_node, "timely-clicks", [{"id": name, "at": at} for name, at in times.items()])
    file = written(tmp_path, SEEN)
    assert run(spark, file, module_node).rows_in == len(times)
    assert sorted(row["id"] for row in table(spark, file, "firsts")) == ["a", "b", "c"]
    assert len(table(spark, file, "quarantine")) == 1


def test_a_merged_row_without_a_key_is_quarantined(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    publish(module_node, "keyless-clicks", [{"id": "a", "at": "2026-01-31T12:00:00Z"}, {"at": "2026-01-31T12:01:00Z"}])
    file = written(tmp_path, SEEN.replace("timely-clicks", "keyless-clicks"))
    run(spark, file, module_node)
    assert [row["id"] for row in table(spark, file, "firsts")] == ["a"]
    (broken,) = table(spark, file, "quarantine")
    assert (broken["view"], broken["rules"]) == ("firsts", ["key-is-there"])
    assert json.loads(broken["row"]) == {"at": "2026-01-31T12:01:00.000Z"}


def test_a_rule_that_spark_refuses_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match=r"^shop.toml:11: rule 'is-of-our-time': .*`when`"):
        check(spark, written(tmp_path, SEEN.replace("at < '2100", "when < '2100")))
