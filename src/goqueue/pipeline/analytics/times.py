"""Moments, hours and days of columns: in UTC whatever the session's time zone is, and exact to the microsecond."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400
_MICROS: Final = 1_000_000


def whole(number: Column, by: int) -> Column:
    """The whole part of a division of whole numbers; Spark's `/` goes over floating point and loses digits."""
    return f.call_function("div", number, f.lit(by).cast("bigint"))


def micros(nanos: Column) -> Column:
    return whole(nanos, 1_000)


def moment_of_ns(nanos: Column) -> Column:
    """The timestamp of nanoseconds since 1970."""
    return f.timestamp_micros(micros(nanos))


def hour_of(moment: Column) -> Column:
    """The beginning of the hour that a timestamp is in."""
    return f.timestamp_seconds(whole(f.unix_micros(moment), _HOUR_S * _MICROS) * _HOUR_S)


def date_of(moment: Column) -> Column:
    """The day that a timestamp is in."""
    days = whole(f.unix_micros(moment), _DAY_S * _MICROS)
    return f.date_add(f.lit("1970-01-01").cast("date"), days.cast("int"))
