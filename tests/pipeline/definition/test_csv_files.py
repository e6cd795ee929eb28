"""CSV that pipelines write is what others read, and what they read is what others write."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from tests.pipeline.definition.files import publish, run, table, written

pytestmark = pytest.mark.xdist_group("spark")

NAMES = ["ann", " bob ", 'Zoë "the cat", Oslo', "back\\slash", 'one \\"', "a;b", "", "two\nlines"]
WRITING = """name = "writing"
[[source]]
name = "people"
topic = "csv-people"
columns = "id string, name string"
[[step]]
name = "named"
sql = "SELECT id, name FROM people"
[[sink]]
view = "named"
file = "people"
format = "csv"
"""
READING = """name = "reading"
[[source]]
name = "people"
file = "people"
format = "csv"
columns = "id string, name string"
[[sink]]
view = "people"
table = "people"
mode = "overwrite"
"""


def lines(folder: Path) -> Iterator[dict[str, str]]:
    for path in folder.glob("*.csv"):
        with path.open(newline="") as opened:
            yield from csv.DictReader(opened)


def test_a_streams_csv_is_read_by_others(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    people = [{"id": str(number), "name": name} for number, name in enumerate(NAMES)]
    publish(module_node, "csv-people", people)
    run(spark, written(tmp_path, WRITING), module_node)
    assert sorted(lines(tmp_path / "people"), key=str) == sorted(people, key=str)


def test_csv_of_others_is_read(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    people = [{"id": str(number), "name": name} for number, name in enumerate(NAMES)]
    (tmp_path / "people").mkdir()
    with (tmp_path / "people/all.csv").open("w", newline="") as opened:
        writer = csv.DictWriter(opened, ["id", "name"])
        writer.writeheader()
        writer.writerows(people)
    file = written(tmp_path, READING)
    run(spark, file, module_node)
    found = [row | {"name": row["name"] or ""} for row in table(spark, file, "people")]
    assert sorted(found, key=str) == sorted(people, key=str)


def test_rows_without_a_key_are_left_out_of_a_merge_and_counted(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """Of a stream they go to the quarantine. There is none here, where every run would put them there again."""
    (tmp_path / "people").mkdir()
    (tmp_path / "people/all.csv").write_text("id,name\n1,ann\nNaN,bob\n,cid\n1.5,dee\n")
    asked = READING.replace('"overwrite"', '"merge"\nkeys = ["id"]').replace("id string", "id double")
    file = written(tmp_path, asked)
    assert run(spark, file, module_node).warnings == ["2 rows have no key, and were left out"]
    assert sorted(row["name"] for row in table(spark, file, "people")) == ["ann", "dee"]
