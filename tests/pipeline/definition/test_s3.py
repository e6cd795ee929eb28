"""A pipeline whose lake is a bucket of a local S3 server: the same file, and the usual variables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from bench.node_process import NodeProcess
from goqueue.pipeline.lake.either import FoundTable
from goqueue.pipeline.lake.iceberg import open_iceberg
from tests.long import only_long
from tests.pipeline.buckets import needs_s3, s3_server
from tests.pipeline.definition.files import publish

pytestmark = [only_long, pytest.mark.xdist_group("jvm"), needs_s3]

ICEBERG = """format = "iceberg"
catalog = "sqlite:///{}/catalog.db"
"""
SHOP = """name = "shop"
lake = "s3://lake/shop"
checkpoints = "checkpoints"
[[source]]
name = "orders"
topic = "bucket-orders"
columns = "id string, customer string, total int"
[[sink]]
view = "orders"
table = "orders"
partition_by = ["customer"]
[[sink]]
view = "orders"
table = "newest"
mode = "merge"
keys = ["customer"]
order = "_offset"
[maintenance]
retention = "0s"
"""
TOTALS = """name = "totals"
lake = "s3://lake/shop"
checkpoints = "checkpoints"
[[source]]
name = "orders"
table = "orders"
[[step]]
name = "totals"
sql = "SELECT customer, sum(total) AS total FROM orders GROUP BY customer"
[[sink]]
view = "totals"
table = "totals"
mode = "overwrite"
"""


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with s3_server(tmp_path, monkeypatch):
        yield


def goqueue(*words: object) -> str:
    command = [sys.executable, "-c", "from goqueue.cli import main; main()", "pipeline", *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def stored(table: str, is_iceberg: bool) -> list[dict[str, Any]]:
    path = f"s3://lake/shop/{table}"
    found = open_iceberg(path).scan().to_arrow() if is_iceberg else DeltaTable(path).to_pyarrow_table()
    return list(found.to_pylist())


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("is_iceberg", [False, True], ids=["delta", "iceberg"])
def test_a_pipeline_writes_reads_and_looks_after_tables_in_a_bucket(
    module_node: NodeProcess, tmp_path: Path, is_iceberg: bool
) -> None:
    shop, totals = tmp_path / "shop.toml", tmp_path / "totals.toml"
    head = ICEBERG.format(tmp_path) if is_iceberg else ""
    topic = f"bucket-orders-{is_iceberg}"
    shop.write_text(head + SHOP.replace("bucket-orders", topic))
    totals.write_text(head + TOTALS)
    for first in (0, 10):
        rows = [{"id": f"o{n}", "customer": f"c {n % 3}", "total": n} for n in range(first, first + 10)]
        publish(module_node, topic, rows, key="customer")
        goqueue("run", shop, "--url", module_node.url)
    goqueue("run", totals, "--url", module_node.url)
    found = {row["customer"]: row["total"] for row in stored("totals", is_iceberg)}
    assert found == {f"c {k}": sum(n for n in range(20) if n % 3 == k) for k in range(3)}
    newest = {row["customer"]: row["id"] for row in stored("newest", is_iceberg)}
    assert newest == {"c 0": "o18", "c 1": "o19", "c 2": "o17"}
    assert "orders" in goqueue("maintain", shop)
    assert FoundTable("s3://lake/shop/orders").files() == 3  # one for each customer
