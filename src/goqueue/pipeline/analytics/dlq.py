"""What died, of what, and when: dead letters by reason, fingerprint of the error, schema version and hour.

    from goqueue.pipeline.analytics.dlq import dlq

    dlq(spark.read.format("goqueue").option("subscribe", "orders.dlq")
        .option("includeHeaders", "true").option("includeMetadata", "true").load())

The pipeline also writes a list of redrives, one JSON object a line, each for letters of one fingerprint,
and lets the broker carry them out. Letters that were redriven or deleted count as what they were: deaths.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from goqueue.client import Client
from goqueue.pipeline.analytics import redrive
from goqueue.pipeline.analytics.journal import Journal, NextPass, Pass, following, reached, unfinished
from goqueue.pipeline.analytics.letters import COLUMNS, letters
from goqueue.pipeline.analytics.messages import Messages, archived_topics
from goqueue.pipeline.analytics.redrive import Stretch
from goqueue.pipeline.analytics.subjects import RegisteredSchemas, subjects
from goqueue.pipeline.analytics.tables import append_once, kept, merge_once, place
from goqueue.pipeline.lake import choices, read_table
from goqueue.pipeline.lake.tables import ensure_table, exists, open_table
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.identity import node_client
from goqueue.pipeline.running import Progress, Run, Summary
from goqueue.pipeline.source.fields import schema_of
from goqueue.pipeline.storage import read_text, write_text

NAME: Final = "dlq"
SUMMARY_LINE: Final = "Dead letters by reason, error, schema version and time, and a list of redrives for the broker."
OPTIONS: Final = {
    "redrive": "fingerprint=HEX: bring the letters of this fingerprint back; without apply it is only said how many.",
    "apply": "yes: carry the redrive out.",
    "rate": "Messages a second of the redrive; default as fast as it goes.",
    "source": "Where letters come from: auto (the lake's archive where it has the topic), lake or topics.",
}
_SUFFIX: Final = ".dlq"
_SHOWN_MAX: Final = 10
_KIND: Final = (
    *("date", "hour", "letter_topic", "topic", "group", "reason"),
    *("fingerprint", "template", "schema_id", "schema_version"),
)


def dlq(frame: DataFrame) -> DataFrame:
    """One row for each hour and kind of death, from messages of dead-letter topics with headers and metadata.

    `schema_version` is null here: only the registry knows it, which the pipeline asks.
    """
    return added(each(_versioned(letters(frame), {})))


def each(found: DataFrame) -> DataFrame:
    """Every letter as a kind of its own."""
    return found.select(
        *_KIND,
        f.lit(1).cast("bigint").alias("letters"),
        f.col("attempts").cast("bigint").alias("attempts"),
        f.col("died_at").alias("first_died_at"),
        f.col("died_at").alias("last_died_at"),
        f.struct("letter_partition", "letter_offset", "error").alias("example"),
    )


def added(rows: DataFrame) -> DataFrame:
    """Rows of the same kind added up; the example is the last letter."""
    return rows.groupBy(*_KIND).agg(
        f.sum("letters").alias("letters"),
        f.sum("attempts").alias("attempts"),
        f.min("first_died_at").alias("first_died_at"),
        f.max("last_died_at").alias("last_died_at"),
        f.max("example").alias("example"),
    )


def _versioned(found: DataFrame, known: Mapping[str, RegisteredSchemas]) -> DataFrame:
    """With the version that the schema's id has among those of the topic; null where nobody knows."""
    listed = [(topic, number, version) for topic, one in known.items() for number, version in one.versions.items()]
    if not listed:
        return found.withColumn("schema_version", f.lit(None).cast("int"))
    versions = found.sparkSession.createDataFrame(listed, "topic string, schema_id int, schema_version int")
    return found.join(f.broadcast(versions), ["topic", "schema_id"], "left")


# --- the pipeline ----------------------------------------------------------------------------------------------


def run(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    """One pass over the letters that are new, the list of redrives, and the redrive that was asked for."""
    began = time.monotonic()
    progress.step("looking for dead letters")
    homes = _homes(run)
    to_do, warnings = _pass(spark, run, homes, progress) if homes else NextPass(None, [])
    if not run.dry_run:
        _ensure(spark, run.lake)
    facts = _facts(spark, run, to_do is not None, progress, warnings)
    read = 0 if to_do is None else to_do.size
    written = 0 if run.dry_run else read
    return Summary(NAME, read, written, time.monotonic() - began, int(written > 0), facts, warnings)


def _pass(spark: SparkSession, run: Run, homes: Sequence[str], progress: Progress) -> NextPass:
    journal = Journal(place(run.lake, f"progress_{NAME}"))
    last = journal.last()
    messages = Messages(spark, run, homes, unfinished(last))
    found = following(last, messages.bounds(reached(last)))
    if found.to_do is not None and not run.dry_run:
        journal.begin(found.to_do)
        _study(run, messages, found.to_do, progress)
        journal.finish(found.to_do)
    return found


def _ensure(spark: SparkSession, lake: str) -> None:
    """Empty tables say that there are no letters; no tables would say that nobody looked."""
    if not exists(place(lake, "dlq")):
        none = _versioned(letters(spark.createDataFrame([], schema_of(COLUMNS))), {})
        ensure_table(place(lake, "letters"), none.schema, ("date",))
        ensure_table(place(lake, "dlq"), added(each(none)).schema, ("date",))


def _homes(run: Run) -> list[str]:
    """The dead-letter topics that there are, of the topics that are asked for or of all."""
    if run.kafka is None and run.url is None:
        archived = archived_topics(run.place("messages"))
        wanted = {*run.topics, *(f"{topic}{_SUFFIX}" for topic in run.topics)}
        return sorted(one for one in archived if one.endswith(_SUFFIX) and (not wanted or one in wanted))
    with node_client(doors(run.kafka, run.url).url) as client:
        there = [one.name for one in client.topics()]
        return sorted({_home(client, one) for one in run.topics or there}.intersection(there))


def _home(client: Client, topic: str) -> str:
    if topic.endswith(_SUFFIX):
        return topic
    return client.topic(topic).config.get("queue.dead.letter.topic", "") or f"{topic}{_SUFFIX}"


def _study(run: Run, messages: Messages, to_do: Pass, progress: Progress) -> None:
    progress.step("reading dead letters", 0, to_do.size)
    with kept(letters(messages.frame(to_do.work, COLUMNS))) as found:
        new = _versioned(found, _subjects(run, found))
        append_once(new, place(run.lake, "letters"), NAME, to_do.number)
        merge_once(each(new), place(run.lake, "dlq"), NAME, to_do.number, added)
    progress.step("reading dead letters", to_do.size, to_do.size)


def _subjects(run: Run, found: DataFrame) -> dict[str, RegisteredSchemas]:
    """Of the topics that letters with a schema died in."""
    framed = found.where(f.col("schema_id").isNotNull() & f.col("topic").isNotNull())
    topics = [row["topic"] for row in framed.select("topic").distinct().collect()]
    return subjects(doors(run.kafka, run.url).url, topics) if topics and (run.kafka or run.url) else {}


def _facts(spark: SparkSession, run: Run, has_news: bool, progress: Progress, warnings: list[str]) -> dict[str, Any]:
    """What all letters so far add up to, and what became of a redrive that was asked for."""
    facts = _counted(place(run.lake, "dlq"))
    if not facts["letters"]:
        return facts
    progress.step("listing redrives")
    found = _listed(spark, run, has_news)
    unlisted = facts["letters"] - facts["put_there_by_hand"] - sum(one.letters for one in found)
    if unlisted:
        warnings.append(f"No redrive is listed for {unlisted:,} letters that died in one millisecond with others.")
    facts |= {"redrive_list": _list_of(run), "redrives": len(found)}
    asked = run.options.get("redrive")
    return facts if asked is None else {**facts, **_redriven(run, redrive.chosen(asked, found), progress, warnings)}


def _listed(spark: SparkSession, run: Run, has_news: bool) -> list[Stretch]:
    """The list as it was written, or made anew where letters came since."""
    text = None if has_news else read_text(_list_of(run))
    if text is not None:
        return redrive.of_lines(text)
    found = redrive.listed(redrive.stretches(read_table(spark, place(run.lake, "letters"))))
    if not run.dry_run:
        write_text(_list_of(run), redrive.as_lines(found))
    return found


def _list_of(run: Run) -> str:
    return place(run.lake, "redrive.jsonl")


def _counted(table: str) -> dict[str, Any]:
    """All letters, and the kinds that are most frequent."""
    if not exists(table):
        return {"letters": 0}
    by = ["topic", "reason", "fingerprint", "template"]
    rows = open_table(table).to_pyarrow_table(columns=[*by, "letters"]).group_by(by).aggregate([("letters", "sum")])
    kinds = sorted(rows.to_pylist(), key=lambda row: (-row["letters_sum"], row["fingerprint"]))
    told = [{**{name: row[name] for name in by}, "letters": row["letters_sum"]} for row in kinds[:_SHOWN_MAX]]
    by_hand = sum(row["letters_sum"] for row in kinds if row["topic"] is None)
    return {"letters": sum(row["letters_sum"] for row in kinds), "put_there_by_hand": by_hand, "kinds": told}


def _redriven(run: Run, wanted: list[Stretch], progress: Progress, warnings: list[str]) -> dict[str, Any]:
    is_applied = choices.flag(run.options, "apply", False) and not run.dry_run
    rate = choices.number(run.options, "rate", None)
    with node_client(doors(run.kafka, run.url).url) as client:
        done = redrive.carry_out(client, wanted, is_applied, rate, progress)
    warnings += done.warnings
    moved = "redriven" if is_applied else "would_redrive"
    skipped = {f"skipped_{error}": count for error, count in done.skipped.items()}
    return {"matched": done.matched, "already_gone": done.gone, moved: done.moved, **skipped}
