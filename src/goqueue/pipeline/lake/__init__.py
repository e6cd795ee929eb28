"""The lake: Delta tables written by executors with pyarrow and committed by the driver with delta-rs. No jars."""

from __future__ import annotations

from goqueue.pipeline.lake.errors import LakeError, LakeUnwritable, NoTable, SchemaChanged
from goqueue.pipeline.lake.reading import read_table
from goqueue.pipeline.lake.writing import write_stream, write_table

__all__ = ["LakeError", "LakeUnwritable", "NoTable", "SchemaChanged", "read_table", "write_stream", "write_table"]
