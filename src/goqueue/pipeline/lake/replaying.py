"""One run of a replay: chunk after chunk out of the archive, each one transaction of the node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from goqueue.base.decoders import from_msgpack
from goqueue.client import staged as calls
from goqueue.pipeline.lake import choices
from goqueue.pipeline.lake.asking import ask
from goqueue.pipeline.lake.chunks import Chunk
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.reading import read_files
from goqueue.pipeline.lake.replay_plan import ReplayPlan, Wish, keep, kept, made
from goqueue.pipeline.lake.selection import in_ranges, range_pruning, selection
from goqueue.pipeline.lake.tables import open_table
from goqueue.pipeline.lake.writing import packed
from goqueue.pipeline.link.cluster import cluster
from goqueue.pipeline.link.doors import NodeAddresses, doors
from goqueue.pipeline.running import Progress, Run, Summary
from goqueue.pipeline.sink.task import this_task
from goqueue.pipeline.sink.writing import SinkTarget, TaskPart, commit_parts, give_up, stage_rows

FROM: Final = "goqueue-replayed-from"  # topic/partition/offset
TIME: Final = "goqueue-replayed-timestamp"  # milliseconds since 1970
_CHUNK_ROWS: Final = 50_000
_CHUNK_S: Final = 5
_SAMPLE_CHARS_MAX: Final = 80
_STEP: Final = "replaying"
_AGAIN: Final = "Run the same replay again; it goes on where it stopped."

Clock = Callable[[], float]


def replay(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    began = time.monotonic()
    archive = run.place("messages")
    wish = _wish(run, archive)
    progress.step("counting what was chosen")
    if run.dry_run:
        return _dry(spark, run, wish, archive, began)
    node = doors(run.kafka, run.url)
    last = ask(node.url, calls.staged(wish.owner)).last_batch
    plan = _plan(spark, run, wish, archive, last)
    _check_target(node, plan)
    sent = _Sending(spark, node, archive, plan).send(last, ReplayPace(_rate(run)), progress)
    return _summary(plan, sent, last, began)


def _wish(run: Run, archive: str) -> Wish:
    options = run.options
    into = options.get("into", "")
    if not into and not run.dry_run:
        raise LakeError("Say which topic the messages go to, with the option into.")
    return Wish(
        str(open_table(archive).metadata().id),
        selection(run.topics, options),
        into,
        choices.number(options, "chunk-rows", None) or _chunk_rows(_rate(run)),
        choices.one_of(options, "timestamps", ("new", "original")) == "original",
        choices.one_of(options, "partitions", ("key", "same")) == "same",
        options.get("name", ""),
    )


def _rate(run: Run) -> int | None:
    return choices.number(run.options, "rate", None)


def _chunk_rows(rate: int | None) -> int:
    return _CHUNK_ROWS if rate is None else max(1, min(_CHUNK_ROWS, rate * _CHUNK_S))


def _plan(spark: SparkSession, run: Run, wish: Wish, archive: str, last: int | None) -> ReplayPlan:
    path = run.place("_checkpoints", "replay", f"{wish.owner}.json")
    plan = kept(path, wish, last)
    if plan is None:
        plan = made(wish, _chosen(spark, archive, wish))
        keep(path, plan)
    return plan


def _chosen(spark: SparkSession, archive: str, wish: Wish) -> DataFrame:
    return read_files(spark, open_table(archive), wish.selection.pruning()).where(wish.selection.condition())


def _check_target(node: NodeAddresses, plan: ReplayPlan) -> None:
    there = len(cluster(node.kafka).partitions(plan.wish.into))
    needed = max((one.partition + 1 for chunk in plan.chunks for one in chunk.ranges), default=0)
    if plan.wish.keep_partitions and there < needed:
        raise LakeError(
            f"{plan.wish.into} has {there} partitions, and messages of partition {needed - 1} are to keep theirs; "
            f"give it {needed}, or leave the option partitions away."
        )


# --- sending ------------------------------------------------------------------------------------------------------


class ReplayPace:
    """Waits so that no more than so many messages a second are sent."""

    def __init__(self, rate: int | None, now: Clock = time.monotonic, sleep: Callable[[float], None] = time.sleep):
        self._rate, self._now, self._sleep = rate, now, sleep
        self._began = now()

    def wait(self, sent: int) -> None:
        """Until it is time for the next, after so many."""
        if self._rate is not None:
            self._sleep(max(0.0, self._began + sent / self._rate - self._now()))


class _Sending:
    """The chunks of one plan on their way."""

    def __init__(self, spark: SparkSession, node: NodeAddresses, archive: str, plan: ReplayPlan) -> None:
        self._spark = spark
        self._archive = archive
        self._plan = plan
        extra = (("partition", plan.wish.keep_partitions), ("timestamp", plan.wish.keep_times))
        columns = ("key", "value", "headers", *(name for name, is_kept in extra if is_kept))
        self._target = SinkTarget(node.kafka, node.url, plan.wish.into, columns)

    def send(self, last: int | None, pace: ReplayPace, progress: Progress) -> int:
        """Everything behind chunk `last`; how many messages that were."""
        first = 0 if last is None else last + 1
        before = sum(chunk.rows for chunk in self._plan.chunks[:first])
        sent = 0
        for number, chunk in enumerate(self._plan.chunks[first:], first):
            pace.wait(sent)
            sent += self._send(number, chunk)
            progress.step(_STEP, before + sent, self._plan.rows)
        return sent

    def _send(self, number: int, chunk: Chunk) -> int:
        owner = self._plan.wish.owner
        task = _Staging(self._target, owner, number)
        try:
            found = self._rows(chunk).mapInArrow(task, "part binary").collect()
            parts = [from_msgpack(row[0], TaskPart) for row in found]
            commit_parts(self._target, parts or [TaskPart(owner, number, 0)], _AGAIN)
        except BaseException:
            # Readers of the topic wait at what is staged; a run that goes on would drop it only then.
            give_up(self._target, owner, number)
            raise
        return sum(part.rows for part in parts)

    def _rows(self, chunk: Chunk) -> DataFrame:
        """Each partition's messages in one task and in order, so what has one key stays in order."""
        found = read_files(self._spark, open_table(self._archive), range_pruning(chunk.ranges))
        chosen = found.where(in_ranges(chunk.ranges) & self._plan.wish.selection.condition())
        tasks = min(len(chunk.ranges), self._spark.sparkContext.defaultParallelism)
        ordered = chosen.repartition(tasks, "topic", "partition").sortWithinPartitions("topic", "partition", "offset")
        return replayed(ordered).select(*self._target.columns)


def replayed(rows: DataFrame) -> DataFrame:
    """Archived rows as messages to send: where each was, and when, goes behind its own headers."""
    place = f.concat_ws("/", f.col("topic"), f.col("partition"), f.col("offset"))
    when = f.unix_millis("timestamp").cast("string")
    origin = f.array(_header(FROM, place), _header(TIME, when))
    none = f.array().cast("array<struct<key:string,value:binary>>")
    return rows.withColumn("headers", f.concat(f.coalesce(f.col("headers"), none), origin))


def _header(name: str, value: Column) -> Column:
    return f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value"))


class _Staging:
    """What one task does: its messages go into the chunk's set, where nobody sees them yet."""

    def __init__(self, target: SinkTarget, owner: str, number: int) -> None:
        self._target, self._owner, self._number = target, owner, number

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield packed([stage_rows(self._target, self._owner, self._number, this_task(), batches)])


# --- telling ------------------------------------------------------------------------------------------------------


def _dry(spark: SparkSession, run: Run, wish: Wish, archive: str, began: float) -> Summary:
    chosen = _chosen(spark, archive, wish)
    plan = made(wish, chosen)
    rate = _rate(run)
    facts: dict[str, Any] = {"would_send": plan.rows, "chunks": len(plan.chunks)}
    if rate is not None:
        facts["seconds_at_rate"] = round(plan.rows / rate)
    facts["sample"] = _sample(chosen, choices.number(run.options, "sample", 10, least=0) or 0)
    return Summary("replay", plan.rows, 0, time.monotonic() - began, 0, facts, [])


def _sample(chosen: DataFrame, count: int) -> list[dict[str, Any]]:
    shown = chosen.orderBy("timestamp", "topic", "partition", "offset").select(
        "topic", "partition", "offset", "timestamp", "key", f.coalesce(f.col("text"), f.hex("value")).alias("value")
    )
    return [{name: _shown(value) for name, value in row.asDict().items()} for row in shown.limit(count).collect()]


def _shown(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        value = bytes(value).decode("utf-8", "backslashreplace")
    return str(value)[:_SAMPLE_CHARS_MAX] if value is not None and not isinstance(value, int) else value


def _summary(plan: ReplayPlan, sent: int, last: int | None, began: float) -> Summary:
    done = 0 if last is None else last + 1
    planned = sum(chunk.rows for chunk in plan.chunks[done:])
    warnings = []
    if plan.chunks and done == len(plan.chunks):
        warnings.append("This replay was done already, so nothing was sent; to do it again, give it another name.")
    if sent < planned:
        warnings.append(f"{planned - sent} messages are not in the archive any more, and were not sent.")
    facts = {
        "into": plan.wish.into,
        "sent_before": plan.rows - planned,
        "replay": plan.wish.owner,
    }
    return Summary("replay", planned, sent, time.monotonic() - began, len(plan.chunks) - done, facts, warnings)
