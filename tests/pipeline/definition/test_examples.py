"""The example files: each is whole and passes its own tests. `test_examples_exact.py` runs them against a node."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from goqueue.pipeline.definition.planning import empty_frames
from goqueue.pipeline.definition.reading import read_file
from goqueue.pipeline.definition.testing import run_tests
from tests.pipeline.definition.files import check, written

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


def test_the_page_shows_a_whole_file(spark: SparkSession, tmp_path: Path) -> None:
    page = (EXAMPLES.parents[2] / "docs/pipeline-files.md").read_text()
    file = written(tmp_path, page.split("```toml\n")[1].split("```")[0])
    check(spark, file)
    with empty_frames(spark, file, file.place("lake"), {}) as like:
        assert [one.differences for one in run_tests(spark, file, like)] == [[]]
