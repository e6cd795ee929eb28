"""Which columns rows may have on their way into a topic: those that Spark's Kafka sink knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from goqueue.pipeline.arrow.columns import METADATA
from goqueue.pipeline.link.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TEXT: Final = ("string", "binary")
WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
# What a read of a topic has besides. Kafka's sink passes over them too, so that a copy needs no select().
PASSED_OVER: Final = ("offset", "timestamp", "timestampType", *METADATA)


class BadColumns(PipelineError):
    """Rows of this shape cannot be messages."""


def columns_to_write(schema: StructType, topic: str | None) -> tuple[str, ...]:
    """The columns that become messages, in the order of the rows. With a `topic` for all, their own does not count."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    _check_names(types)
    if "value" not in types:
        raise BadColumns("The rows have no column 'value'; every message needs one: select(... .alias('value')).")
    if topic is None and "topic" not in types:
        raise BadColumns("Nobody says where the rows go: set the option 'topic', or give them a column 'topic'.")
    for name, found in types.items():
        if name in WRITTEN and found not in WRITTEN[name]:
            raise BadColumns(f"The column {name!r} is {found}, but has to be {' or '.join(WRITTEN[name])}; cast it.")
    return tuple(name for name in types if name in WRITTEN and (name != "topic" or topic is None))


def _check_names(types: Mapping[str, str]) -> None:
    for name in types:
        if name not in WRITTEN and name not in PASSED_OVER:
            raise BadColumns(
                f"A message has no {name!r}. Written are {', '.join(WRITTEN)}; passed over are "
                f"{', '.join(PASSED_OVER)}. Put the rest into the value, as by to_json(struct(...)), or drop() it."
            )
