"""Lengths of time as callers write them: numbers are seconds, text is like `10s`, or a `timedelta`."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms
from goqueue.worker.errors import InvalidOption

TimeSpan: TypeAlias = float | str | timedelta


def seconds_of(span: TimeSpan, option: str) -> float:
    """Seconds; `InvalidOption` for what is no length of time."""
    if isinstance(span, timedelta):
        found = span.total_seconds()
    elif isinstance(span, str):
        found = _parsed(span, option)
    elif isinstance(span, int | float) and not isinstance(span, bool):
        found = float(span)
    else:
        raise InvalidOption(f'{option} is seconds, text like "10s" or a timedelta, not {span!r}.')
    if not 0 <= found < float("inf"):
        raise InvalidOption(f"{option} cannot be {span!r}.")
    return found


def _parsed(text: str, option: str) -> float:
    try:
        return parse_duration_ms(text, option) / 1000
    except InvalidField as error:
        raise InvalidOption(error.message) from None
