"""Iceberg tables in a bucket of a local S3 server: batches happen once, and the table is looked after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from goqueue.pipeline.lake.commits import QueryBatch
from goqueue.pipeline.lake.either import FoundTable
from goqueue.pipeline.lake.iceberg import open_iceberg
from goqueue.pipeline.lake.merging import MergeRule
from goqueue.pipeline.lake.stores import store
from tests.pipeline.buckets import needs_s3, s3_server

pytestmark = needs_s3

PATH = "s3://lake/shop/newest"
COLUMNS = StructType([StructField("customer", StringType()), StructField("orders", LongType())])


@pytest.fixture(autouse=True)
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with s3_server(tmp_path, monkeypatch):
        yield


def rows(found: dict[str, int]) -> pa.Table:
    return pa.table({"customer": list(found), "orders": pa.array(found.values(), pa.int64())})


def stored() -> dict[str, Any]:
    found = open_iceberg(PATH).scan().to_arrow().to_pylist()
    assert len({row["customer"] for row in found}) == len(found)
    return {row["customer"]: row["orders"] for row in found}


def test_a_table_in_a_bucket_is_merged_tended_and_forgotten_from(tmp_path: Path) -> None:
    lake, rule = (
        store("iceberg", "s3://lake/shop", f"sqlite:///{tmp_path}/catalog.db"),
        MergeRule(["customer"], "orders"),
    )
    batches = [{"ann": 1, "bob": 1, "cid": 1}, {"bob": 2, "ann": 0}, {"cid": 3}]
    for number, batch in enumerate(batches):
        assert lake.merge(rows(batch), PATH, rule, COLUMNS, QueryBatch("query", number)) == len(batch)
        assert lake.merge(rows(batch), PATH, rule, COLUMNS, QueryBatch("query", number)) == 0
    assert stored() == {"ann": 1, "bob": 2, "cid": 3}
    table = FoundTable(PATH)
    table.tend("newest", 1 << 20, 0)
    assert (table.format, table.files(), stored()) == ("iceberg", 1, {"ann": 1, "bob": 2, "cid": 3})
    assert table.delete("customer = 'ann'") == 1
    table.purge()
    assert stored() == {"bob": 2, "cid": 3}
    keys = [one["Key"] for one in boto3.client("s3").list_objects_v2(Bucket="lake")["Contents"]]
    assert sum(key.startswith("shop/newest/data/") for key in keys) == 1
