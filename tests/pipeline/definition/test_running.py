"""Pipelines from files at work: topics, tables, merges, quarantine, restarts; all held against plain Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from goqueue.pipeline.definition.checkpoints import CheckpointMismatch
from goqueue.pipeline.definition.mistakes import PipelineFileError
from tests.pipeline.definition.files import messages, publish, run, table, written

pytestmark = pytest.mark.xdist_group("spark")

SHOP = """name = "shop"
[[source]]
name = "orders"
topic = "TOPIC"
columns = "id string, customer string, total double"
[[rule]]
name = "total-is-positive"
view = "orders"
must = "total > 0"
[[step]]
name = "large"
sql = "SELECT id, customer, total FROM orders WHERE total >= 100"
[[sink]]
view = "large"
table = "large"
[[sink]]
view = "large"
topic = "TOPIC-large"
key = "customer"
[[sink]]
view = "orders"
name = "newest"
table = "newest"
mode = "merge"
keys = ["customer"]
order = "_offset"
"""


def orders(first: int, last: int) -> list[dict[str, object]]:
    return [{"id": f"o{n}", "customer": f"c{n % 5}", "total": float(n)} for n in range(first, last)]


def test_rows_arrive_once_in_tables_topics_and_merges_over_several_runs(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    publish(module_node, "shop", orders(0, 150), key="customer")
    publish(module_node, "shop", ["not json", '{"id": "none"}'])
    publish(module_node, "shop-large", [])
    file = written(tmp_path, SHOP.replace("TOPIC", "shop"))
    first = run(spark, file, module_node)
    assert first.rows_in == 152
    publish(module_node, "shop", orders(150, 200), key="customer")
    run(spark, file, module_node)
    run(spark, file, module_node)  # nothing new
    large = orders(100, 200)
    assert sorted(table(spark, file, "large"), key=str) == sorted(large, key=str)
    assert messages(spark, module_node, "shop-large") == sorted(((str(one["customer"]), one) for one in large), key=str)
    newest = {row["customer"]: row["id"] for row in table(spark, file, "newest")}
    assert newest == {f"c{n % 5}": f"o{n}" for n in range(195, 200)}
    broken = table(spark, file, "quarantine")
    assert {tuple(row["rules"]) for row in broken} == {("total-is-positive",)}
    assert sorted(json.loads(row["row"])["_value"] for row in broken) == sorted(
        ["not json", '{"id": "none"}', json.dumps(orders(0, 1)[0])]
    )
    assert all(row["topic"] == "shop" and row["offset"] is not None for row in broken)


def test_a_checkpoint_of_another_pipeline_or_state_is_refused(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    publish(module_node, "counted", orders(1, 20))
    head = '[[source]]\nname = "orders"\ntopic = "counted"\ncolumns = "id string, customer string, total double"\n'
    step = '[[step]]\nname = "sums"\nsql = "SELECT customer, sum(total) AS total FROM orders GROUP BY customer"\n'
    sink = '[[sink]]\nview = "sums"\ntable = "sums"\nmode = "merge"\nkeys = ["customer"]\n'
    file = written(tmp_path, 'name = "counts"\n' + head + step + sink)
    run(spark, file, module_node)
    assert {row["customer"]: row["total"] for row in table(spark, file, "sums")} == {
        f"c{key}": float(sum(n for n in range(1, 20) if n % 5 == key)) for key in range(5)
    }
    changed = written(tmp_path, 'name = "counts"\n' + head + step.replace("sum(total)", "max(total)") + sink)
    with pytest.raises(CheckpointMismatch, match=r"keeps between batches changed.*--from-scratch"):
        run(spark, changed, module_node)
    run(spark, changed, module_node, from_scratch=True)
    assert {row["customer"]: row["total"] for row in table(spark, changed, "sums")}["c4"] == 19.0
    elsewhere = written(tmp_path, 'name = "counts"\n' + head.replace('"counted"', '"shop"') + step + sink)
    with pytest.raises(CheckpointMismatch, match="read counted before, and now shop"):
        run(spark, elsewhere, module_node)


def test_a_source_that_is_added_binds_no_sink_that_does_not_read_it(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """Spark numbers the sources of each query by itself."""
    publish(module_node, "first-shop", orders(1, 4))
    publish(module_node, "second-shop", orders(4, 6))
    head = 'name = "shops"\n'
    source = '[[source]]\nname = "NAME"\ntopic = "NAME-shop"\ncolumns = "id string"\n'
    step = '[[step]]\nname = "both"\nsql = "SELECT id FROM first"\n'
    sink = '[[sink]]\nview = "both"\ntable = "both"\n'
    one, two = source.replace("NAME", "first"), source.replace("NAME", "second")
    file = written(tmp_path, head + one + step + sink)
    run(spark, file, module_node)
    more = written(tmp_path, head + two + one + step + sink + '[[sink]]\nview = "second"\ntable = "second"\n')
    publish(module_node, "first-shop", orders(6, 7))
    run(spark, more, module_node)
    assert sorted(row["id"] for row in table(spark, more, "both")) == ["o1", "o2", "o3", "o6"]
    assert sorted(row["id"] for row in table(spark, more, "second")) == ["o4", "o5"]
    union = step.replace("FROM first", "FROM second UNION ALL SELECT id FROM first")
    joined = written(tmp_path, head + two + one + union + sink)
    with pytest.raises(CheckpointMismatch, match=r"read first-shop before, and now second-shop, first-shop.*scratch"):
        run(spark, joined, module_node)
    run(spark, joined, module_node, from_scratch=True)
    assert len(table(spark, joined, "both")) == 4 + 6


def test_a_pipeline_with_a_watermark_goes_on_in_its_next_run(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """Spark names a watermark anew in every plan; the state is the same."""
    text = (
        'name = "seen"\n[[source]]\nname = "clicks"\ntopic = "clicks"\ncolumns = "id string, at timestamp"\n'
        'watermark = "at 1 hour"\n[[step]]\nname = "firsts"\nsql = "SELECT DISTINCT id, at FROM clicks"\n'
        '[[sink]]\nview = "firsts"\ntable = "firsts"\nmode = "merge"\nkeys = ["id"]\n'
    )
    file = written(tmp_path, text)
    for ids in (("a", "b"), ("b", "c")):
        publish(module_node, "clicks", [{"id": one, "at": "2026-01-31T12:00:00Z"} for one in ids])
        run(spark, file, module_node)
    assert sorted(row["id"] for row in table(spark, file, "firsts")) == ["a", "b", "c"]
    with pytest.raises(CheckpointMismatch, match="keeps between batches changed"):
        run(spark, written(tmp_path, text.replace("1 hour", "2 hours")), module_node)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_batch_that_was_written_just_before_a_kill_is_known_to_what_spark_keeps(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path, kind: str
) -> None:
    """The table has the batch, and Spark does not know that it ended."""
    topic = f"visits-{kind}"
    text = (
        f'name = "seen"\nformat = "{kind}"\n[[source]]\nname = "visits"\ntopic = "{topic}"\n'
        'columns = "id string, at timestamp"\nwatermark = "at 1 hour"\n'
        '[[step]]\nname = "firsts"\nsql = "SELECT DISTINCT id, at FROM visits"\n'
        '[[sink]]\nview = "firsts"\ntable = "firsts"\n'
    )
    file = written(tmp_path, text)
    for hour, ids in ((12, ("a", "b")), (14, ("b", "c")), (16, ("d",)), (18, ("e",))):
        publish(module_node, topic, [{"id": one, "at": f"2026-01-31T{hour}:00:00Z"} for one in ids])
        run(spark, file, module_node)
        newest = max(tmp_path.glob("**/commits/[0-9]*"), key=lambda path: int(path.name))
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    found = sorted((row["at"].hour, row["id"]) for row in table(spark, file, "firsts"))
    assert found == [(12, "a"), (12, "b"), (14, "b"), (14, "c")], "those that the watermark has passed, once"


def test_a_missing_topic_of_alerts_begins_nothing(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    publish(module_node, "watched", [])
    publish(module_node, "watched-large", [])
    asked = SHOP.replace("TOPIC", "watched") + '[alerts]\ntopic = "nowhere-alerts"\n'
    with pytest.raises(PipelineFileError, match="alerts: there is no topic 'nowhere-alerts'"):
        run(spark, written(tmp_path, asked), module_node)
    assert not (tmp_path / "lake").exists()


def test_a_missing_topic_begins_nothing(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    file = written(tmp_path, SHOP.replace("TOPIC", "nowhere"))
    with pytest.raises(PipelineFileError) as raised:
        run(spark, file, module_node)
    assert [line.split("; ")[0] for line in str(raised.value).splitlines()] == [
        "shop.toml:4: source: there is no topic 'nowhere'",
        "shop.toml:18: sink: there is no topic 'nowhere-large'",
    ]
    assert not (tmp_path / "lake").exists()
