"""Dead letters as rows: what the broker's own headers tell of a death, read from a dead-letter topic.

A letter that was put there by hand tells nothing; it has no `topic`, and its reason is empty.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from goqueue.pipeline.analytics.fingerprint import fingerprint, template
from goqueue.pipeline.analytics.times import date_of, hour_of

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers", "traceId", "schemaId")
_PREFIX: Final = "goqueue-dlq-"
_REDRIVES: Final = "goqueue-redrives"


def letters(frame: DataFrame) -> DataFrame:
    """One row a letter, from messages of dead-letter topics as the connector reads them with headers and metadata.

    `letter_topic`, `letter_partition` and `letter_offset` are where it lies; `topic`, `partition` and `offset` are the
    message that died. `died_at` is when; of letters put there by hand it is when that was.
    """
    told = frame.select(
        f.col("topic").alias("letter_topic"),
        f.col("partition").alias("letter_partition"),
        f.col("offset").alias("letter_offset"),
        _text("topic").alias("topic"),
        _number("partition").cast("int").alias("partition"),
        _number("offset").alias("offset"),
        f.coalesce(_moment("died-at"), f.col("timestamp")).alias("died_at"),
        _moment("timestamp").alias("published_at"),
        _moment("first-delivered-at").alias("first_delivered_at"),
        f.coalesce(_text("group"), f.lit("")).alias("group"),
        f.coalesce(_text("reason"), f.lit("")).alias("reason"),
        f.coalesce(_text("error"), f.lit("")).alias("error"),
        f.coalesce(_number("attempts"), f.lit(0)).cast("int").alias("attempts"),
        f.coalesce(_number("failures"), f.lit(0)).cast("int").alias("failures"),
        f.coalesce(_value(_REDRIVES).cast("string").try_cast("int"), f.lit(0)).alias("redrives"),
        f.col("schemaId").alias("schema_id"),
        f.col("traceId").alias("trace_id"),
        (_length("key") + _length("value")).alias("bytes"),
    )
    return told.select(
        date_of(f.col("died_at")).alias("date"),
        hour_of(f.col("died_at")).alias("hour"),
        "*",
        template(f.col("error")).alias("template"),
        fingerprint(f.col("error")).alias("fingerprint"),
    )


def _value(name: str) -> Column:
    """The last header of that name, as the broker reads it; null if there is none."""
    return f.try_element_at(f.filter("headers", lambda one: one["key"] == name), f.lit(-1))["value"]


def _text(name: str) -> Column:
    """Bytes that are no text show as such; they come from producers."""
    text = f.make_valid_utf8(_value(_PREFIX + name).cast("string"))
    return f.when(f.length(text) > 0, text)


def _number(name: str) -> Column:
    return _value(_PREFIX + name).cast("string").try_cast("bigint")


def _moment(name: str) -> Column:
    millis = _number(name)
    return f.when(millis > 0, f.timestamp_millis(millis))


def _length(name: str) -> Column:
    return f.coalesce(f.octet_length(name), f.lit(0))
