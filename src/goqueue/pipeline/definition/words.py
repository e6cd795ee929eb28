"""What a pipeline's file says, as values. Nothing here knows of files or of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
QUARANTINE: Final = "quarantine"

Output = Literal["append", "update", "complete"]
Mode = Literal["append", "merge", "overwrite"]
TableFormat = Literal["delta", "iceberg"]
FileFormat = Literal["parquet", "json", "csv"]
Rows = list[dict[str, Any]]


class NodeDoors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where messages come from and go to. One door is enough."""

    url: str | None = None
    kafka: str | None = None


class PipelineSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view with the rows of a topic, of a table of the lake, or of files. Exactly one of the three is said."""

    name: str
    topic: str | None = None
    table: str | None = None
    file: str | None = None
    format: FileFormat | None = None
    columns: str | None = None
    schema: Literal["registry", "none"] = "none"
    watermark: str | None = None
    begin: str = "earliest"
    as_of: str | None = None
    max_rows: int = 500_000


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A view that is made from others, by SQL or by a function `FILE.py:NAME`."""

    name: str
    sql: str | None = None
    python: str | None = None
    watermark: str | None = None


class RowRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What has to be true of a view's rows. Others go to a table of the lake, with the reason."""

    name: str
    view: str
    must: str
    quarantine: str = QUARANTINE


class PipelineSink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a view's rows go: a topic, a table of the lake, or files."""

    view: str
    name: str | None = None
    topic: str | None = None
    table: str | None = None
    file: str | None = None
    format: FileFormat = "parquet"
    mode: Mode = "append"
    output: Output | None = None
    key: str | None = None
    value: str | None = None
    keys: list[str] = []
    order: str | None = None
    delete_when: str | None = None
    partition_by: list[str] = []

    @property
    def target(self) -> str:
        """`topic large-orders`: what people call it."""
        kind, name = next((kind, name) for kind, name in self.targets() if name is not None)
        return f"{kind} {name}"

    @property
    def id(self) -> str:
        """The name of its checkpoint."""
        return self.name or self.target.replace(" ", "-").replace("/", "-")

    @property
    def output_mode(self) -> Output:
        """What Spark hands on: changed rows to a merge, everything to what is written anew, new rows else."""
        chosen: dict[Mode, Output] = {"merge": "update", "overwrite": "complete", "append": "append"}
        return self.output or chosen[self.mode]

    def targets(self) -> tuple[tuple[str, str | None], ...]:
        return ("topic", self.topic), ("table", self.table), ("file", self.file)


class Maintenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How `serve` looks after the tables of the pipeline's sinks.

    `expire` is how old rows become, by the time or day in the column `expire_by`; `retention` is how long older
    versions of a table can be read.
    """

    every: str = "1d"
    file_size: str = "128MiB"
    retention: str = "7d"
    expire: str | None = None
    expire_by: str | None = None


class Alerts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `serve` tells a topic: that the pipeline failed, was refused or runs again, and numbers above a limit."""

    topic: str
    lag_rows: int | None = None
    late_rows: int | None = None
    quarantined_rows: int | None = None
    state_rows: int | None = None

    def limits(self) -> dict[str, int]:
        """The numbers that have one, by the names that a running pipeline's numbers have."""
        named = ("lag_rows", "late_rows", "quarantined_rows", "state_rows")
        return {name: limit for name in named if (limit := getattr(self, name)) is not None}


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A test: these rows in the sources, and what has to come out in views. Columns that are not named do not count."""

    name: str
    given: dict[str, Rows]
    expect: dict[str, Rows]


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole pipeline."""

    name: str
    source: list[PipelineSource]
    sink: list[PipelineSink]
    description: str = ""
    lake: str = "lake"
    format: TableFormat = "delta"
    catalog: str | None = None
    checkpoints: str | None = None
    node: NodeDoors = NodeDoors()
    step: list[Step] = []
    rule: list[RowRule] = []
    test: list[Trial] = []
    spark: dict[str, str] = {}
    maintenance: Maintenance | None = None
    alerts: Alerts | None = None

    def sources(self) -> Mapping[str, PipelineSource]:
        return {one.name: one for one in self.source}

    def views(self) -> list[str]:
        return [*(one.name for one in self.source), *(one.name for one in self.step)]

    def rules_of(self, view: str) -> list[RowRule]:
        return [one for one in self.rule if one.view == view]

    def quarantines(self) -> list[str]:
        """Tables that broken rows go to, in order of their first mention."""
        return list(dict.fromkeys(one.quarantine for one in self.rule))

    def broken_tables(self) -> list[str]:
        """Tables that take rows which break a rule, or have no key to be merged by."""
        keyless = [QUARANTINE] if any(one.mode == "merge" for one in self.sink) else []
        return list(dict.fromkeys([*self.quarantines(), *keyless]))

    def tables(self) -> list[str]:
        """All tables of the lake that the pipeline writes."""
        own = [one.table for one in self.sink if one.table is not None]
        return list(dict.fromkeys([*own, *self.broken_tables()]))
