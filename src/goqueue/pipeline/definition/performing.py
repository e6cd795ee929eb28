"""One run of a pipeline from a file: its queries started, watched, and summed up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from goqueue.pipeline.definition.begin_again import begun_at, carry_out, done, forget_begin, ordered
from goqueue.pipeline.definition.checkpoints import check_folder, claim, forget, identity
from goqueue.pipeline.definition.frames import NodeFrames
from goqueue.pipeline.definition.mistakes import Mistake
from goqueue.pipeline.definition.planning import PipelinePlan, empty_frames, plan
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.reasons import causes, reason
from goqueue.pipeline.definition.running_lock import RunningLock
from goqueue.pipeline.definition.sinks import SinkPlace, start_quarantine, start_sink, write_static
from goqueue.pipeline.lake.stores import store
from goqueue.pipeline.link.cluster import cluster
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.running import Progress, Summary

_LOOK_S: Final = 0.2


class Asked(msgspec.Struct, frozen=True):
    """What a run is asked for. `node` are the connector's options; without `every_s` it works off what is there."""

    node: Mapping[str, str]
    lake: str
    every_s: float | None = None
    from_scratch: bool = False


class PreparedPipeline(msgspec.Struct, frozen=True):
    """A pipeline that may start. Whoever has it releases the lock at the end."""

    file: PipelineFile
    plan: PipelinePlan
    place: SinkPlace
    lock: RunningLock


class QueryFailed(PipelineError):
    """A query ended by itself."""


class SinkCounts(msgspec.Struct):
    sink: str
    rows_in: int = 0
    batches: int = 0
    rows_out: int | None = None


def perform(spark: SparkSession, file: PipelineFile, asked: Asked, progress: Progress) -> Summary:
    """Checks the whole pipeline, then runs it. Nothing is begun if something is wrong."""
    began = time.monotonic()
    progress.step("checking")
    ready = prepare(spark, file, asked)
    try:
        counted = _carried_out(ready, progress)
    finally:
        ready.lock.release()
    return _summary(file, counted, time.monotonic() - began, ready.place.quarantined.left_out)


def _carried_out(ready: PreparedPipeline, progress: Progress) -> list[SinkCounts]:
    counted = [
        SinkCounts(one.sink.id, 0, 1, write_static(one.rows, one.sink, ready.place))
        for one in ready.plan.sinks
        if not one.is_stream
    ]
    queries = start_queries(ready)
    try:
        return counted + _watched(queries, progress)
    finally:
        for query in queries.values():
            query.stop()


def prepare(spark: SparkSession, file: PipelineFile, asked: Asked) -> PreparedPipeline:
    """Everything checked, and the checkpoints claimed; nothing runs yet."""
    _check_topics(file, asked.node)
    with empty_frames(spark, file, asked.lake, asked.node) as empty:
        names = _names(plan(spark, file, empty))
    place = _place(file, asked)
    lock = RunningLock(place)
    try:
        return PreparedPipeline(file, _claimed(spark, file, asked, place, names), place, lock)
    except BaseException:
        lock.release()
        raise


def _place(file: PipelineFile, asked: Asked) -> SinkPlace:
    folder = str(file.path.parent.absolute())
    said = file.definition.checkpoints
    checkpoints = None if said is None else file.place(said)
    tables = store(file.definition.format, asked.lake, file.definition.catalog)
    return SinkPlace(file.definition.name, asked.lake, folder, asked.node, asked.every_s, tables, checkpoints)


def _claimed(spark: SparkSession, file: PipelineFile, asked: Asked, place: SinkPlace, names: list[str]) -> PipelinePlan:
    replay = ordered(file.path)
    for sink in file.definition.sink:
        check_folder(place, sink, replay is not None or asked.from_scratch)
    if replay is not None:
        carry_out(file, place, replay, names)
    if asked.from_scratch:
        forget_begin(place)
        for name in names:
            forget(place, name)
    found = plan(spark, file, NodeFrames(spark, asked.node, asked.lake, place.folder, begun_at(place)))
    _claim_all(file, found, place)
    if replay is not None:
        done(file.path)
    return found


def start_queries(ready: PreparedPipeline) -> dict[str, StreamingQuery]:
    """A query for each sink and each quarantine of a stream, by the sink's name. If one does not start, none runs."""
    started: dict[str, StreamingQuery] = {}
    try:
        for name, query in _start(ready.file, ready.plan, ready.place):
            started[name] = query  # noqa: PERF403 - what was started before a failure has to be known
    except BaseException:
        for query in started.values():
            query.stop()
        raise
    return started


def _check_topics(file: PipelineFile, node: Mapping[str, str]) -> None:
    asked = file.definition
    places = [("source", number, one.topic) for number, one in enumerate(asked.source)]
    places += [("sink", number, one.topic) for number, one in enumerate(asked.sink)]
    if not any(topic for _, _, topic in places):
        return
    if asked.alerts is not None:
        places.append(("alerts", 0, asked.alerts.topic))
    there = cluster(doors(node.get("kafka.bootstrap.servers"), node.get("url")).kafka).topics()
    missing = [
        Mistake(
            f"{kind}: there is no topic {topic!r}; `goqueue topic create {topic}` makes it", (kind, number, "topic")
        )
        for kind, number, topic in places
        if topic is not None and topic not in there
    ]
    if missing:
        raise file.refuse(*missing)


def _names(found: PipelinePlan) -> list[str]:
    return [one.sink.id for one in found.sinks] + [f"quarantine-{view}" for view in found.views.broken]


def _claim_all(file: PipelineFile, found: PipelinePlan, place: SinkPlace) -> None:
    topics = {one.name: one.topic for one in file.definition.source if one.topic is not None}
    for one in found.sinks:
        if one.is_stream:
            claim(place, identity(place, one.sink.id, one.rows, topics))
    for view, rows in found.views.broken.items():
        if rows.isStreaming:
            claim(place, identity(place, f"quarantine-{view}", rows, topics))


def _start(file: PipelineFile, found: PipelinePlan, place: SinkPlace) -> Iterator[tuple[str, StreamingQuery]]:
    for one in found.sinks:
        if one.is_stream:
            yield one.sink.id, start_sink(one.rows, one.sink, place)
    for view, rows in found.views.broken.items():
        if rows.isStreaming:
            table = file.definition.rules_of(view)[0].quarantine
            yield f"quarantine-{view}", start_quarantine(rows, table, view, place)


def _watched(queries: Mapping[str, StreamingQuery], progress: Progress) -> list[SinkCounts]:
    """Until all have ended; the first that fails ends the others."""
    counted = {name: SinkCounts(name) for name in queries}
    seen: dict[str, int] = {}
    while True:
        active = [query for query in queries.values() if query.isActive]
        for name, query in queries.items():
            count(counted[name], query, seen)
            check_query(name, query)
        progress.step("running", sum(one.rows_in for one in counted.values()))
        if not active:
            return list(counted.values())
        time.sleep(_LOOK_S)


def count(counted: SinkCounts, query: StreamingQuery, seen: dict[str, int]) -> None:
    for one in filter(is_batch, query.recentProgress):
        told = _told(one)
        number = int(told["batchId"])
        if number <= seen.get(counted.sink, -1):
            continue
        seen[counted.sink] = number
        counted.rows_in += int(told["numInputRows"])
        counted.batches += 1


def is_batch(progress: Any) -> bool:
    """Whether it tells of a batch. A look that found nothing to do has the number of the batch that is to come."""
    return "addBatch" in _told(progress)["durationMs"]


def _told(progress: Any) -> dict[str, Any]:
    return progress if isinstance(progress, dict) else progress.__dict__


def check_query(name: str, query: StreamingQuery) -> None:
    """Raises what ended the query, if something did."""
    try:
        failed = query.exception()
    except StreamingQueryException as raised:
        failed = raised
    if failed is not None:
        raise QueryFailed(f"{name}: {reason(causes(failed))}")


def _summary(file: PipelineFile, done: list[SinkCounts], seconds: float, left_out: int) -> Summary:
    rows = [msgspec.to_builtins(one) for one in done]
    for row in rows:
        row["rows_out"] = "-" if row["rows_out"] is None else row["rows_out"]
    total = max((one.rows_in for one in done), default=0)
    out = sum(one.rows_out or 0 for one in done)
    facts = {"sinks": rows}
    warnings = [f"{left_out:,} rows have no key, and were left out"] if left_out else []
    return Summary(file.definition.name, total, out, seconds, sum(one.batches for one in done), facts, warnings)
