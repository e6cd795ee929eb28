"""A pipeline's tables as Delta and as Iceberg: every engine reads the same rows of both."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from goqueue.base.times import time_text
from goqueue.pipeline.definition.mistakes import PipelineFileError
from goqueue.pipeline.lake.reading import read_table
from tests.pipeline.definition.files import check, publish, run, table, written

pl = pytest.importorskip("polars", reason="polars is not installed")

pytestmark = pytest.mark.xdist_group("spark")

SHOP = """name = "shop"
format = "FORMAT"
[[source]]
name = "orders"
topic = "TOPIC"
columns = "id string, customer string, total int, at timestamp"
[[rule]]
name = "total-is-positive"
view = "orders"
must = "total > 0"
[[step]]
name = "all"
sql = "SELECT id, customer, total, at, date(at) AS day, array(id) AS ids FROM orders"
[[sink]]
view = "all"
table = "orders"
partition_by = ["day", "customer"]
[[sink]]
view = "orders"
name = "newest"
table = "newest"
mode = "merge"
keys = ["customer"]
order = "_offset"
"""


def orders(first: int, last: int) -> list[dict[str, object]]:
    return [
        {"id": f"o{n}", "customer": f"c/{n % 3}", "total": n - 1, "at": f"2026-01-{1 + n % 2:02}T12:00:00Z"}
        for n in range(first, last)
    ]


def arrow(path: str, kind: str) -> Any:
    if kind == "delta":
        return DeltaTable(path).to_pyarrow_table()
    from goqueue.pipeline.lake.iceberg import open_iceberg

    return open_iceberg(path).scan().to_arrow()


def by_engine(spark: SparkSession, path: str, kind: str) -> dict[str, list[tuple[Any, ...]]]:
    names = "id, customer, total"
    found = arrow(path, kind)
    if kind == "delta":
        polars = pl.read_delta(path)
    else:
        from goqueue.pipeline.lake.iceberg import open_iceberg

        polars = pl.scan_iceberg(open_iceberg(path)).collect()
    pandas = found.to_pandas()
    return {
        "duckdb": duckdb.from_arrow(found).project(names).order("id").fetchall(),
        "pandas": sorted(zip(pandas["id"], pandas["customer"], pandas["total"], strict=True)),
        "polars": polars.select("id", "customer", "total").sort("id").rows(),
        "spark": [
            tuple(row) for row in read_table(spark, path).selectExpr("id", "customer", "total").sort("id").collect()
        ],
    }


@pytest.mark.timeout(600)
def test_every_engine_reads_the_same_rows_of_both_formats(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    publish(module_node, "both", orders(0, 20), key="customer")
    rows: dict[str, Any] = {}
    for kind in ("delta", "iceberg"):
        file = written(tmp_path / kind, SHOP.replace("FORMAT", kind).replace("TOPIC", "both"))
        run(spark, file, module_node)
        rows[kind] = by_engine(spark, file.place("lake/orders"), kind)
        assert len(table(spark, file, "quarantine")) == 2
    expected = [
        (one["id"], one["customer"], one["total"]) for one in sorted(orders(2, 20), key=lambda one: str(one["id"]))
    ]
    assert rows == {kind: dict.fromkeys(("duckdb", "pandas", "polars", "spark"), expected) for kind in rows}


@pytest.mark.timeout(600)
def test_an_iceberg_table_goes_on_with_new_columns_and_remembers_what_it_was(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    publish(module_node, "grown", orders(2, 10), key="customer")
    text = SHOP.replace("FORMAT", "iceberg").replace("TOPIC", "grown")
    file = written(tmp_path, text)
    run(spark, file, module_node)
    then = time_text(time.time_ns() // 10**6)
    publish(module_node, "grown", orders(10, 20), key="customer")
    grown = text.replace("SELECT id,", "SELECT upper(id) AS name, id,").replace(
        "total, at, date", "bigint(total) AS total, at, date"
    )
    run(spark, written(tmp_path, grown), module_node)
    now = table(spark, file, "orders")
    assert len(now) == 18 and {row["name"] for row in now} == {None, *(f"O{n}" for n in range(10, 20))}
    assert {row["customer"]: row["id"] for row in table(spark, file, "newest")} == {
        "c/0": "o18",
        "c/1": "o19",
        "c/2": "o17",
    }
    as_it_was = f"""name = "look"
[[source]]
name = "orders"
table = "orders"
as_of = "{then}"
[[sink]]
view = "orders"
table = "older"
mode = "overwrite"
"""
    run(spark, written(tmp_path, as_it_was, "look.toml"), module_node)
    assert sorted(row["total"] for row in table(spark, file, "older")) == list(range(1, 9))
    with pytest.raises(PipelineFileError, match="has no version of 2020"):
        check(spark, written(tmp_path, as_it_was.replace(then, "2020-01-01T00:00:00Z"), "look.toml"))
