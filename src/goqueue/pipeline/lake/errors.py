"""What can go wrong with a lake. Every one passes between processes."""

from __future__ import annotations

from goqueue.base.times import time_text
from goqueue.pipeline.lake.storage_failures import advice, one_line
from goqueue.pipeline.link.errors import PipelineError


class LakeError(PipelineError):
    """Root of the lake's own errors."""


class LakeUnwritable(LakeError):
    """The lake's place takes no files."""

    def __init__(self, table: str, why: object) -> None:
        to_do = advice(why, "Choose a folder or bucket that takes files.")
        super().__init__(f"Nothing can be written to {table}: {one_line(why)}. {to_do}")


class NoTable(LakeError):
    """There is no such table yet."""

    def __init__(self, table: str) -> None:
        super().__init__(f"There is no table at {table}; run the pipeline that writes it first, or correct the path.")


class NoSuchVersion(LakeError):
    """The table is younger than the time that was asked for, or no longer keeps what it was then."""

    def __init__(self, table: str, as_of_ms: int) -> None:
        super().__init__(f"{table} has no version of {time_text(as_of_ms)} or before; choose a later time.")


class CannotGrow(LakeError):
    """Rows have columns that the table cannot take. Other columns, or another table, are the way on."""


class SchemaChanged(CannotGrow):
    """A column has another type than the table's."""

    def __init__(self, table: str, column: str, has: str, given: str) -> None:
        super().__init__(
            f"Column {column!r} of {table} is {has}, and {given} was given. Cast it, or move the table away to start "
            "a new one."
        )
        self.column = column


class UnsupportedTable(LakeError):
    """Another engine gave the table features that are not understood here."""

    def __init__(self, table: str, features: list[str]) -> None:
        super().__init__(
            f"The table {table} uses {', '.join(features)}, which cannot be read here. Turn the feature off in the "
            "engine that turned it on, and rewrite the table."
        )


class LakeBusy(LakeError):
    """Others kept committing to the table, or wrote the same messages at the same time."""


class LakeDamaged(LakeError):
    """Messages are in the lake more than once."""
