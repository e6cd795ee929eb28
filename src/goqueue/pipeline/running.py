"""The eight pipelines by name, and what they share: what is asked, what is told while one runs, and what came out.

Nothing here loads Spark; a pipeline's module is loaded when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINES: Final = {
    "archive": "goqueue.pipeline.archive",
    "replay": "goqueue.pipeline.replay",
    "compact": "goqueue.pipeline.compact",
    "rates": "goqueue.pipeline.analytics.rates",
    "latency": "goqueue.pipeline.analytics.latency",
    "dlq": "goqueue.pipeline.analytics.dlq",
    "quality": "goqueue.pipeline.analytics.quality",
    "report": "goqueue.pipeline.report.report",
}
METRICS: Final = "_metrics"


class Run(msgspec.Struct, frozen=True):
    """What one run of a pipeline is asked for.

    `kafka` and `url` are the node's doors, one is enough. A pipeline works off what is there and ends; with `every_s`
    its caller runs it again and again. `options` are the pipeline's own, by the names in its `OPTIONS`.
    """

    kafka: str | None
    url: str | None
    topics: tuple[str, ...]
    lake: str
    once: bool = True
    every_s: float | None = None
    dry_run: bool = False
    options: dict[str, str] = {}

    def place(self, *parts: str) -> str:
        """A table or file of the lake."""
        return "/".join((self.lake.rstrip("/"), *parts))


class Summary(msgspec.Struct):
    """What one run did. `facts` are the pipeline's own numbers: scalars, or rows as a list of flat dicts."""

    pipeline: str
    rows_in: int
    rows_out: int
    seconds: float
    batches: int
    facts: dict[str, Any] = {}
    warnings: list[str] = []


class Progress(Protocol):
    """Told by a pipeline as it goes. The same text again is the same step, further on."""

    def step(self, text: str, done: int | None = None, total: int | None = None) -> None: ...


class Silent:
    """Progress that nobody watches."""

    def step(self, text: str, done: int | None = None, total: int | None = None) -> None:
        return


class Pipeline(Protocol):
    """What every pipeline's module has."""

    NAME: str
    SUMMARY_LINE: str
    OPTIONS: Mapping[str, str]

    def run(self, spark: SparkSession, run: Run, progress: Progress) -> Summary: ...


def pipeline(name: str) -> Pipeline:
    """The module of a pipeline; `KeyError` if there is none of that name."""
    return cast(Pipeline, import_module(PIPELINES[name]))


def needs_spark(found: Pipeline) -> bool:
    """Whether it wants a session. One that does not says so, and is given None."""
    return bool(getattr(found, "NEEDS_SPARK", True))
