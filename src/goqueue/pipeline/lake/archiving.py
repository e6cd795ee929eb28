"""One run of the archive: from where the lake stands to where the topics end now."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from goqueue.pipeline.lake import choices
from goqueue.pipeline.lake.archive_query import ArchiveCounts, ArchiveQuery, marks_in
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.messages import READ
from goqueue.pipeline.lake.retyping import retype
from goqueue.pipeline.lake.tables import exists
from goqueue.pipeline.lake.typed_tables import TypedTables
from goqueue.pipeline.lake.writing import start
from goqueue.pipeline.link.cluster import Cluster, cluster
from goqueue.pipeline.link.doors import NodeAddresses, doors
from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.running import Progress, Run, Summary
from goqueue.pipeline.source.offsets import EARLIEST, positions_json

_MAX_ROWS: Final = 500_000
_ISOLATION: Final = "read_committed"
_NAME_CHARS_MAX: Final = 100
_STEP: Final = "archiving"


def archive(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    began = time.monotonic()
    node = doors(run.kafka, run.url)
    there = cluster(node.kafka)
    topics = _topics(there, run.topics)
    typed = TypedTables(run.lake, node.url, topics if choices.flag(run.options, "typed", True) else ())
    since_ms = choices.moment_ms(run.options, "since")
    if run.dry_run and not exists(run.place("messages")):
        return _dry(Backlog(there, dict.fromkeys(marks_in(there, topics)), since_ms), typed, began)
    query = ArchiveQuery(run.place("messages"), there, topics, typed)
    backlog = Backlog(there, query.ends(), since_ms)
    if run.dry_run:
        return _dry(backlog, typed, began)
    for topic in choices.names(run.options, "retype"):
        progress.step(f"making the typed table of {topic} anew")
        retype(spark, run, typed, query, topic)
    progress.step(_STEP, 0, backlog.total)
    query.on_batch = lambda ends: progress.step(_STEP, backlog.done(ends), backlog.total)
    _run_query(spark, run, node, query, backlog, topics)
    progress.step(_STEP, backlog.total, backlog.total)
    return _summary(query.tally, typed, began, {})


def _dry(backlog: Backlog, typed: TypedTables, began: float) -> Summary:
    return _summary(ArchiveCounts(), typed, began, {"to_archive": backlog.total})


def _topics(there: Cluster, asked: Sequence[str]) -> list[str]:
    found = there.topics()
    for topic in asked:
        if topic not in found:
            raise TopicNotFound(topic)
    if not found:
        raise LakeError("The node has no topics yet; there is nothing to archive.")
    return sorted(set(asked) or found)


class Backlog:
    """Where a new query begins, and how many offsets lie between the lake and the ends of the topics."""

    def __init__(self, there: Cluster, ends: Mapping[Place, int | None], since_ms: int | None) -> None:
        places = sorted(ends)
        self._ends = there.latest(places, _ISOLATION)
        self._begin = self._begun(there, ends, since_ms)
        self.starts = {
            place: EARLIEST if ends[place] is None and since_ms is None else at for place, at in self._begin.items()
        }
        self.total = self.done(self._ends)

    def _begun(self, there: Cluster, ends: Mapping[Place, int | None], since_ms: int | None) -> dict[Place, int]:
        """Never before what the log still has, for that is told as a loss by whoever reads it."""
        new = [place for place, end in ends.items() if end is None]
        first = there.earliest(new)
        if since_ms is not None:
            found = there.at_time(new, dict.fromkeys(new, since_ms))
            first = {place: self._ends[place] if at is None else at for place, at in found.items()}
        return {place: first[place] if end is None else end for place, end in ends.items()}

    def done(self, ends: Mapping[Place, int]) -> int:
        """How much of it lies below these ends."""
        return sum(max(0, min(ends.get(place, 0), end) - self._begin[place]) for place, end in self._ends.items())


def _run_query(
    spark: SparkSession, run: Run, node: NodeAddresses, query: ArchiveQuery, backlog: Backlog, topics: Sequence[str]
) -> None:
    options = {
        "kafka.bootstrap.servers": node.kafka,
        "url": node.url,
        "subscribe": ",".join(topics),
        "startingOffsets": msgspec.json.encode(positions_json(backlog.starts)).decode(),
        "columns": ",".join(READ),
        "maxOffsetsPerTrigger": str(choices.number(run.options, "max-rows", _MAX_ROWS)),
        "failOnDataLoss": str(choices.flag(run.options, "fail-on-loss", True)).lower(),
    }
    frame = spark.readStream.format("goqueue").options(**options).load()
    running = start(frame, query, "goqueue-archive", _checkpoint(run, topics), once=True)
    try:
        running.awaitTermination()
    except Exception:
        if query.failure is not None:
            raise query.failure from None
        raise
    finally:
        running.stop()


def _checkpoint(run: Run, topics: Sequence[str]) -> str:
    """One for each choice of topics: Spark's offsets are about exactly these."""
    name = "+".join(topics) if run.topics else "all"
    if len(name) > _NAME_CHARS_MAX:
        name = sha256(name.encode()).hexdigest()[:32]
    return run.place("_checkpoints", "archive", name)


def _summary(tally: ArchiveCounts, typed: TypedTables, began: float, facts: dict[str, Any]) -> Summary:
    rows = sum(tally.rows.values())
    told = {
        **facts,
        "files": tally.files,
        "bytes": tally.bytes,
        "typed_rows": sum(tally.typed.values()),
        "typed_skipped": sum(one.count for one in tally.skips.values()),
        "had_already": tally.seen - rows,
        "by_topic": [_topic_row(tally, topic) for topic in sorted(tally.rows)],
    }
    warnings = [*typed.warnings.values(), *_skip_warnings(tally)]
    return Summary("archive", tally.seen, rows, time.monotonic() - began, tally.batches, told, warnings)


def _topic_row(tally: ArchiveCounts, topic: str) -> dict[str, Any]:
    skips = tally.skips.get(topic)
    row = {"topic": topic, "rows": tally.rows[topic], "typed": tally.typed.get(topic, 0)}
    return {**row, "skipped": 0 if skips is None else skips.count}


def _skip_warnings(tally: ArchiveCounts) -> list[str]:
    return [
        f"{skips.count} messages of {topic} fit no typed row and are in the archive alone, like {skips.examples[0]}"
        for topic, skips in sorted(tally.skips.items())
        if skips.count
    ]
