"""Schemas of tests, in Spark's words."""

from __future__ import annotations

from pyspark.sql.types import StructType


def columns(**kinds: str) -> StructType:
    named = {"int": "integer", "bigint": "long"}
    fields = [{"name": n, "type": named.get(k, k), "nullable": True, "metadata": {}} for n, k in kinds.items()]
    return StructType.fromJson({"type": "struct", "fields": fields})
