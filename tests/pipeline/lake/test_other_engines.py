"""The lake as other engines see it: DuckDB, pandas and plain Parquet readers, by the examples of docs/lake.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import duckdb
import pytest
from deltalake import DeltaTable

from tests.pipeline.lake.shop import Shop
from tests.pipeline.topics import contents

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def test_duckdb_reads_the_archive(shop: Shop, duck: duckdb.DuckDBPyConnection) -> None:
    messages = DeltaTable(str(shop.lake / "messages")).to_pyarrow_dataset()
    duck.register("messages", messages)
    found = duck.sql("SELECT key, value, partition, \"offset\" FROM messages WHERE topic = 'orders'").fetchall()
    expected = [(one.key, one.value, one.partition, one.offset) for one in contents(shop.node, "orders")]
    assert Counter(found) == Counter(expected)


def test_duckdb_reads_headers_times_and_days(shop: Shop, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("messages", DeltaTable(str(shop.lake / "messages")).to_pyarrow_dataset())
    pages = duck.sql(
        "SELECT decode(h.value) AS page, count(*) "
        "FROM (SELECT unnest(headers) AS h FROM messages WHERE topic = 'visits') "
        "WHERE h.key = 'page' GROUP BY page ORDER BY page"
    ).fetchall()
    assert pages == [(str(page), 34 if page < 3 else 33) for page in range(9)]
    hours = duck.sql(
        "SELECT hour(timestamp AT TIME ZONE 'UTC') AS hour, count(*) FROM messages "
        "WHERE date = '2025-11-15' GROUP BY hour"
    ).fetchall()
    assert sum(count for _, count in hours) == 300 and {hour for hour, _ in hours} == {12, 13, 14}


def test_duckdb_reads_the_files_alone(shop: Shop, duck: duckdb.DuckDBPyConnection) -> None:
    files = DeltaTable(str(shop.lake / "messages")).file_uris()
    found = duck.execute(
        "SELECT topic, count(*) FROM read_parquet($1, hive_partitioning = true) GROUP BY topic ORDER BY topic", [files]
    ).fetchall()
    assert found == [("orders", 302), ("payments", 80), ("visits", 300)]


def test_duckdb_reads_a_typed_table(shop: Shop, duck: duckdb.DuckDBPyConnection) -> None:
    duck.register("orders", DeltaTable(str(shop.lake / "typed/orders")).to_pyarrow_dataset())
    assert duck.sql("SELECT count(*), min(id), max(id), sum(id) FROM orders").fetchall() == [(300, 0, 299, 44_850)]


def test_pandas_reads_it_too(shop: Shop) -> None:
    frame = DeltaTable(str(shop.lake / "messages")).to_pandas(columns=["topic", "offset", "text"])
    assert frame.groupby("topic").size().to_dict() == {"orders": 302, "payments": 80, "visits": 300}
