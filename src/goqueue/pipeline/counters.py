"""What a pipeline did in all its runs on a lake: one small file each, in Prometheus' text form.

`{lake}/_metrics/<pipeline>.prom` can be served by any web server or by node_exporter's textfile collector. Counters
go on over runs; gauges are of the last run. A file that cannot be read starts anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from goqueue.pipeline.running import PIPELINES, Summary
from goqueue.pipeline.storage import read_text, write_text

_PREFIX: Final = "goqueue_pipeline_"


class Counters(msgspec.Struct):
    """All runs of one pipeline on one lake."""

    runs: float = 0
    failures: float = 0
    rows_in: float = 0
    rows_out: float = 0
    batches: float = 0
    seconds: float = 0
    warnings: float = 0
    last_run_seconds: float = 0
    last_run_timestamp_seconds: float = 0
    facts: dict[str, float] = {}


_TOLD: Final = {
    "runs": "Runs that went well.",
    "failures": "Runs that ended with an error.",
    "rows_in": "Rows read.",
    "rows_out": "Rows written.",
    "batches": "Batches written.",
    "seconds": "Time spent in runs.",
    "warnings": "Warnings given.",
}
_LAST: Final = {
    "last_run_seconds": "How long the last run took.",
    "last_run_timestamp_seconds": "When the last run ended, since 1970.",
}


def counters(folder: str, pipeline: str) -> Counters:
    """As they stand; all zero before the first run."""
    text = read_text(f"{folder}/{pipeline}.prom")
    return Counters() if text is None else parse(text)


def all_counters(folder: str) -> dict[str, Counters]:
    """Of every pipeline that ran."""
    found = ((name, counters(folder, name)) for name in PIPELINES)
    return {name: one for name, one in found if one.runs or one.failures}


def count_success(folder: str, summary: Summary, now: float | None = None) -> None:
    before = counters(folder, summary.pipeline)
    after = Counters(
        runs=before.runs + 1,
        failures=before.failures,
        rows_in=before.rows_in + summary.rows_in,
        rows_out=before.rows_out + summary.rows_out,
        batches=before.batches + summary.batches,
        seconds=before.seconds + summary.seconds,
        warnings=before.warnings + len(summary.warnings),
        last_run_seconds=summary.seconds,
        last_run_timestamp_seconds=time.time() if now is None else now,
        facts=dict(_numbers(summary)),
    )
    write_text(f"{folder}/{summary.pipeline}.prom", render(summary.pipeline, after))


def count_failure(folder: str, pipeline: str) -> None:
    """The error under way matters more than a lake that takes no file."""
    try:
        before = counters(folder, pipeline)
        after = msgspec.structs.replace(before, failures=before.failures + 1)
        write_text(f"{folder}/{pipeline}.prom", render(pipeline, after))
    except OSError:
        return


def _numbers(summary: Summary) -> Iterator[tuple[str, float]]:
    for name, value in summary.facts.items():
        if isinstance(value, int | float):
            yield name, float(value)


def render(pipeline: str, found: Counters) -> str:
    registry = CollectorRegistry()
    for name, told in _TOLD.items():
        counter = Counter(_PREFIX + name, told, ["pipeline"], registry=registry)
        counter.labels(pipeline).inc(getattr(found, name))
    for name, told in _LAST.items():
        Gauge(_PREFIX + name, told, ["pipeline"], registry=registry).labels(pipeline).set(getattr(found, name))
    facts = Gauge(_PREFIX + "fact", "A number of the last run's summary.", ["pipeline", "fact"], registry=registry)
    for name, value in found.facts.items():
        facts.labels(pipeline, name).set(value)
    return generate_latest(registry).decode()


def parse(text: str) -> Counters:
    """The way back from `render`; what it does not know it leaves out."""
    found = Counters(facts={})
    try:
        samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    except ValueError:
        return found
    for sample in samples:
        name = sample.name.removeprefix(_PREFIX).removesuffix("_total")
        if name == "fact":
            found.facts[sample.labels["fact"]] = sample.value
        elif name in _TOLD or name in _LAST:
            setattr(found, name, sample.value)
    return found
