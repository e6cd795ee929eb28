"""Which messages are not what they should be: checked against their registered schemas and against users' rules.

    from goqueue.pipeline.analytics.quality import quality
    from goqueue.pipeline.analytics.profiles import write_drift, write_profiles
from goqueue.pipeline.analytics.rules import Rule

    checked = quality(frame, [Rule("positive_amount", "get_json_object(text, '$.amount') > 0.0")])
    bad = checked.where("size(reasons) > 0")

The pipeline puts bad rows into the lake's quarantine, and says what changed in the messages' fields since its last run.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from goqueue.pipeline.analytics.checks import CheckPlan, TopicSchemas, prepare, reasons
from goqueue.pipeline.analytics.journal import Journal, Pass, following, reached, unfinished
from goqueue.pipeline.analytics.messages import Messages, with_text
from goqueue.pipeline.analytics.profiles import write_drift, write_profiles
from goqueue.pipeline.analytics.rules import Rule, broken, load_rules
from goqueue.pipeline.analytics.subjects import subjects, texts
from goqueue.pipeline.analytics.tables import append_once, place
from goqueue.pipeline.analytics.times import date_of
from goqueue.pipeline.analytics.verdicts import SCHEMA, bad_rows, shown, verdicts_of, write_verdicts
from goqueue.pipeline.lake import read_table
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.identity import node_client
from goqueue.pipeline.running import Progress, Run, Summary

NAME: Final = "quality"
SUMMARY_LINE: Final = "Rows against their schemas and your rules; bad ones to quarantine, and what fields drifted."
OPTIONS: Final = {
    "rules": "File of rules, .json or .sql: conditions in SQL by name.",
    "source": "Where messages come from: auto (the lake's archive where it has the topic), lake or topics.",
}
_COLUMNS: Final = (
    *("key", "value", "topic", "partition", "offset", "timestamp", "headers"),
    *("priority", "traceId", "schemaId", "text"),
)
_NOTHING: Final = CheckPlan({}, {})

Facts = dict[str, Any]


def quality(frame: DataFrame, rules: Sequence[Rule] = (), book: CheckPlan = _NOTHING) -> DataFrame:
    """Messages as the connector reads them with metadata, with the column `reasons`: none for a good one.

    A reason is the `check`, `schema` or a rule's name, and `why`. `book` holds schemas by topic.
    """
    rows = frame if "text" in frame.columns else with_text(frame)
    found = broken(rows, rules).withColumn("misfit", _misfit(book))
    listed = f.transform("broken", lambda name: _reason(name, f.lit("the condition is not true")))
    misfit = f.array_compact(f.array(f.when(f.col("misfit").isNotNull(), _reason(f.lit(SCHEMA), f.col("misfit")))))
    return found.withColumn("reasons", f.concat(misfit, listed)).drop("broken", "misfit")


def _reason(check: Column, why: Column) -> Column:
    return f.struct(check.alias("check"), why.alias("why"))


def _misfit(book: CheckPlan) -> Column:
    """Null without a look at the value where no topic has a schema."""
    if not book.topics:
        return f.lit(None).cast("string")

    def look(topics: pa.Array, ids: pa.Array, values: pa.Array) -> pa.Array:
        return reasons(book, topics, ids, values)

    # Without the kind of function, which type hints tell; its stub does not know that.
    checked: Column = arrow_udf(look, "string")("topic", "schemaId", "value")  # type: ignore[call-overload]
    return checked


# --- the pipeline ----------------------------------------------------------------------------------------------


def run(spark: SparkSession, run: Run, progress: Progress) -> Summary:
    """One pass over what is new. Rules hold for what comes after them; rows that were checked are not checked again."""
    began = time.monotonic()
    rules = load_rules(run.options["rules"]) if "rules" in run.options else []
    journal = Journal(place(run.lake, f"progress_{NAME}"))
    progress.step("looking for new messages")
    last = journal.last()
    messages = Messages(spark, run, run.topics, unfinished(last))
    to_do, warnings = following(last, messages.bounds(reached(last)))
    facts: Facts = {"rows": 0 if to_do is None else to_do.size, "rules": len(rules)}
    if to_do is not None and not run.dry_run:
        book = _book(run, sorted({one.topic for one in to_do.work}), warnings)
        journal.begin(to_do)
        facts |= _study(run, messages.frame(to_do.work, _COLUMNS), to_do, rules, book, progress)
        journal.finish(to_do)
    seconds = time.monotonic() - began
    return Summary(NAME, facts["rows"], facts.get("bad", 0), seconds, int(to_do is not None), facts, warnings)


def _book(run: Run, topics: Collection[str], warnings: list[str]) -> CheckPlan:
    """The schemas of these topics, as the node's registry has them."""
    if run.kafka is None and run.url is None:
        warnings.append("No node was named, so rows were not checked against schemas; give its address with --url.")
        return _NOTHING
    url = doors(run.kafka, run.url).url
    found = {topic: one for topic, one in subjects(url, topics).items() if one.versions}
    with node_client(url) as client:
        there = {one.name for one in client.topics()}
        framings = {topic: client.topic(topic).config["schema.validation"] for topic in found if topic in there}
    known = texts(url, {number for one in found.values() for number in one.versions})
    topics_known = {
        topic: TopicSchemas(framings.get(topic, "none"), tuple(one.versions), one.latest)
        for topic, one in found.items()
    }
    book = CheckPlan(topics_known, known)
    prepare(book)
    return book


def _study(
    run: Run, frame: DataFrame, to_do: Pass, rules: Sequence[Rule], book: CheckPlan, progress: Progress
) -> Facts:
    progress.step("checking rows", 0, to_do.size)
    quarantine, now = run.place("quarantine"), datetime.now(UTC)
    bad = quality(frame, rules, book).where(f.size("reasons") > 0)
    told = (date_of(f.col("timestamp")).alias("date"), f.lit(to_do.number).cast("bigint").alias("number"))
    append_once(bad.select("*", *told, f.lit(now).alias("checked_at")), quarantine, NAME, to_do.number)
    progress.step("looking at fields", 0, to_do.size)
    totals = write_profiles(frame, place(run.lake, "fields"), to_do.number, now)
    changes = write_drift(place(run.lake, "fields"), place(run.lake, "drift"), to_do.number, now)
    found = read_table(frame.sparkSession, quarantine, where=f"number = {to_do.number}")
    verdicts = verdicts_of(found, totals, rules, book)
    write_verdicts(verdicts, place(run.lake, "quality"), to_do.number, now)
    progress.step("looking at fields", to_do.size, to_do.size)
    return {"bad": bad_rows(verdicts), "checks": shown(verdicts), "drift": changes}
