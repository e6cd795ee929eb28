"""Files as a sink: Spark's own, which keeps a log of batches in the folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from goqueue.pipeline.definition.begin_again import CannotReplay, ReplayOrder, what_replay_does
from goqueue.pipeline.definition.checkpoints import CheckpointMismatch
from tests.pipeline.definition.files import publish, run, written

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

EXPORT = """name = "export"
[[source]]
name = "readings"
topic = "exported"
columns = "n int"
[[step]]
name = "numbers"
sql = "SELECT n FROM readings"
[[sink]]
view = "numbers"
file = "out"
format = "json"
"""


def numbers(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(row.n for row in spark.read.json(str(folder)).collect())


def test_a_folder_that_another_checkpoint_wrote_is_refused_and_a_new_one_takes_all_rows(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """Spark keeps the numbers of batches in the folder: those of a new checkpoint would be left out."""
    file = written(tmp_path, EXPORT)
    for n in range(2):
        publish(module_node, "exported", [{"n": n}])
        run(spark, file, module_node)
    assert numbers(spark, tmp_path / "out") == [0, 1]
    with pytest.raises(CheckpointMismatch, match=r"would leave out rows that come there anew\. Name another folder"):
        run(spark, file, module_node, from_scratch=True)
    with pytest.raises(CannotReplay, match="Name another folder"):
        what_replay_does(file, file.place("lake"), ReplayOrder(0, again=True))
    publish(module_node, "exported", [{"n": 2}])
    run(spark, file, module_node)  # nothing was begun: it goes on from where it was
    assert numbers(spark, tmp_path / "out") == [0, 1, 2]
    with pytest.raises(CheckpointMismatch, match="Name another folder"):
        run(spark, written(tmp_path, EXPORT.replace('"export"', '"other"')), module_node)
    run(spark, written(tmp_path, EXPORT.replace('"out"', '"anew"')), module_node, from_scratch=True)
    assert numbers(spark, tmp_path / "anew") == [0, 1, 2]
