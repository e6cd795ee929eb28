"""Messages as the connector reads them, made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from goqueue.pipeline.arrow.columns import BASE, HEADERS, METADATA
from goqueue.pipeline.source.fields import schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (*BASE, HEADERS, *METADATA)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_USUAL: dict[str, Any] = {
    "topic": "orders",
    "partition": 0,
    "offset": 0,
    "timestampType": 0,
    "headers": [],
    "priority": 2,
}


def moment(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=millis)


def millis(moment: datetime) -> int:
    return (moment.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)


def frame_of(spark: SparkSession, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """What a row does not say is as usual."""
    whole = [{"timestamp": EPOCH, **_USUAL, **row} for row in rows]
    return spark.createDataFrame([tuple(row.get(name) for name in COLUMNS) for row in whole], schema_of(COLUMNS))
