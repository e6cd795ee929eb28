"""The columns of messages: those of Spark's Kafka source, and ours on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from goqueue.pipeline.link.errors import PipelineError

BASE: Final[tuple[str, ...]] = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"
METADATA: Final[tuple[str, ...]] = ("priority", "traceId", "schemaId", "attempts")

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
# Spark matches types exactly: the name of the zone and the unit belong to them.
TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.field("element", HEADER_TYPE)),
    "priority": pa.int32(),
    "traceId": pa.string(),
    "schemaId": pa.int32(),
    "attempts": pa.int32(),
}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of these columns in this order, all nullable."""
    unknown = [name for name in columns if name not in TYPES]
    if unknown:
        raise PipelineError(f"There is no column {unknown[0]!r}; there are {', '.join(TYPES)}.")
    return pa.schema([pa.field(name, TYPES[name]) for name in columns])
