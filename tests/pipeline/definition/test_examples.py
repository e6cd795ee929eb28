"""The example files: each is whole, passes its own tests, and two run against a node and plain Python."""

from __future__ import annotations

from pathlib import Path
from shutil import copy
from typing import Final

import pytest
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from goqueue.pipeline.definition.planning import empty_frames
from goqueue.pipeline.definition.reading import read_file
from goqueue.pipeline.definition.testing import run_tests
from tests.pipeline.definition.files import check, publish, run, table, written

pytestmark = pytest.mark.xdist_group("spark")

EXAMPLES: Final = Path(__file__).parents[3] / "examples/pipelines/files"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_an_example_passes_its_own_tests(spark: SparkSession, path: Path) -> None:
    file = read_file(path)
    assert file.definition.test or path.stem == "daily_export"
    with empty_frames(spark, file, file.place("lake"), {}) as like:
        assert {one.test: one.differences for one in run_tests(spark, file, like)} == {
            one.name: [] for one in file.definition.test
        }


def test_customers_are_as_the_last_change_says(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    copy(EXAMPLES / "customers.toml", tmp_path)
    file = read_file(tmp_path / "customers.toml")
    changes = [
        {"id": str(n % 7), "name": f"name {n}", "city": "Oslo", "version": n, "is_gone": n % 5 == 0} for n in range(40)
    ]
    for part in (changes[:25], changes[25:]):
        publish(module_node, "customer-changes", part, key="id")
        run(spark, file, module_node)
    last = {one["id"]: one for one in changes}
    assert {row["id"]: row["name"] for row in table(spark, file, "customers")} == {
        key: one["name"] for key, one in last.items() if not one["is_gone"]
    }


def test_the_page_shows_a_whole_file(spark: SparkSession, tmp_path: Path) -> None:
    page = (EXAMPLES.parents[2] / "docs/pipeline-files.md").read_text()
    file = written(tmp_path, page.split("```toml\n")[1].split("```")[0])
    check(spark, file)
    with empty_frames(spark, file, file.place("lake"), {}) as like:
        assert [one.differences for one in run_tests(spark, file, like)] == [[]]
