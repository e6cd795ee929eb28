"""Options of a table that was made by `CREATE TABLE ... USING goqueue`.

Spark shows a source the options of `CREATE TABLE` once, when it asks for the columns; a later SELECT or INSERT brings
only the columns as the catalogue keeps them. So the options travel in the metadata of a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from pyspark.sql.types import StructField, StructType

from goqueue.base.decoders import from_json
from goqueue.pipeline.options import Side, is_of_other_side

_OPTION: Final = "option."  # how the catalogue names what stands in OPTIONS (...)
_METADATA: Final = "goqueue.options"
_CARRIER: Final = "value"  # a column that every INSERT has


def options_of_create(given: Mapping[str, str]) -> dict[str, str] | None:
    """What stands in OPTIONS (...), if a catalogue makes a table by it; it adds words of its own."""
    if not any(name.lower() == "provider" for name in given):
        return None
    return {name[len(_OPTION) :]: value for name, value in given.items() if name.lower().startswith(_OPTION)}


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    carrier = _CARRIER if _CARRIER in schema.names else schema.names[0]
    text = msgspec.json.encode(dict(sorted(options.items()))).decode()
    fields = [
        StructField(one.name, one.dataType, one.nullable, {_METADATA: text} if one.name == carrier else None)
        for one in schema.fields
    ]
    return StructType(fields)


def options_for(schema: StructType, given: Mapping[str, str], side: Side) -> Mapping[str, str]:
    """The options of a read or write: the statement's own, and behind them the table's."""
    for one in schema.fields:
        if one.metadata and _METADATA in one.metadata:
            return {**of_side(from_json(one.metadata[_METADATA], dict[str, str]), side), **given}
    return given


def of_side(options: Mapping[str, str], side: Side) -> dict[str, str]:
    """A table is read from and written to: what is only for the other side is no mistake."""
    return {name: value for name, value in options.items() if not is_of_other_side(name, side)}


def without_options(schema: StructType) -> StructType:
    return StructType([StructField(one.name, one.dataType, one.nullable) for one in schema.fields])
