"""Messages as the connector gives them, made up, and tables with them, without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType, StructType

from goqueue.pipeline.arrow.columns import arrow_schema
from goqueue.pipeline.lake import messages
from goqueue.pipeline.lake.commits import QueryBatch, commit
from goqueue.pipeline.lake.parts import DataFile, Parts
from goqueue.pipeline.lake.schemas import arrow_schema as arrow_schema_of
from goqueue.pipeline.lake.tables import ensure_table

NOON = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
SMALL = StructType().add("n", LongType()).add("lane", StringType())


def message(offset: int, value: bytes | None = b"{}", topic: str = "orders", partition: int = 0, **more: Any) -> Any:
    """One row; what is not said is as plain as can be."""
    row = {"key": b"k", "value": value, "topic": topic, "partition": partition, "offset": offset, "priority": 2}
    return {**row, "timestamp": NOON + dt.timedelta(seconds=offset), "timestampType": 0, "headers": [], **more}


def batch_of(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), arrow_schema(messages.READ))


def small_table(path: Path, partition_by: Sequence[str] = ()) -> DeltaTable:
    return ensure_table(str(path), SMALL, partition_by)


def small_files(
    path: Path, numbers: Sequence[int], partition_by: Sequence[str] = (), lane: str = "a"
) -> list[DataFile]:
    """Files with these numbers in the table's folder, in no transaction."""
    parts = Parts(str(path), arrow_schema_of(SMALL), partition_by)
    parts.write(pa.RecordBatch.from_pydict({"n": list(numbers), "lane": [lane] * len(numbers)}))
    return parts.close()


def add(path: Path, numbers: Sequence[int], batch: QueryBatch | None = None) -> bool:
    """Files and commit."""
    return commit(small_table(path), small_files(path, numbers), batch=batch)


def numbers_in(path: Path) -> list[int]:
    found = DeltaTable(str(path)).to_pyarrow_table(columns=["n"])
    return sorted(found.column("n").to_pylist())


def files_in(path: Path) -> int:
    """Data files in the folder, whether the table knows them or not."""
    return sum(1 for _ in path.rglob("*.parquet") if "_delta_log" not in _.parts)
