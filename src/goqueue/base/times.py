"""Durations and points in time as people write them.

Durations: `1500ms`, `10s`, `5m`, `2h`, `7d`, ISO 8601 (`PT1.5S`, `P1DT2H`), or a bare number of milliseconds.
Points: RFC 3339, or a bare number of milliseconds since 1970.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from goqueue.base.errors import InvalidField
from goqueue.base.header_values import shown
from goqueue.base.ids import Millis

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIMPLE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_ISO = re.compile(r"P(?:(\d+(?:\.\d+)?)D)?(?:T(?=\d)(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_ISO_MS = (86_400_000, 3_600_000, 60_000, 1_000)
_MS_MAX = 10**18
_DIGITS = re.compile(r"\d{1,18}")
_KEPT, _KEPT_CHARS_MAX = 256, 16


def parse_duration_ms(text: str, field: str) -> Millis:
    """Milliseconds of a duration, or `InvalidField`."""
    return _kept_duration_ms(text, field) if len(text) <= _KEPT_CHARS_MAX else _duration_ms(text, field)


@lru_cache(_KEPT)
def _kept_duration_ms(text: str, field: str) -> Millis:
    """Who polls asks for the same again and again."""
    return _duration_ms(text, field)


def _duration_ms(text: str, field: str) -> Millis:
    text = text.strip()
    if _DIGITS.fullmatch(text):
        return int(text)
    if simple := _SIMPLE.fullmatch(text):
        return _whole(float(simple[1]) * _UNIT_MS[simple[2]], field)
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        parts = zip(iso.groups(), _ISO_MS, strict=True)
        return _whole(sum(float(part) * unit for part, unit in parts if part), field)
    raise InvalidField(f"{shown(text)} is not a duration; write it like 1500ms, 10s, 5m, 2h or PT1.5S.", field=field)


def _whole(ms: float, field: str) -> Millis:
    if ms > _MS_MAX:
        raise InvalidField("The duration is longer than this broker can count.", field=field)
    return round(ms)


def parse_time_ms(text: str, field: str) -> Millis:
    """Milliseconds since 1970 of a point in time, or `InvalidField`. A time without a zone is UTC."""
    text = text.strip()
    if _DIGITS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidField(
            f"{shown(text)} is not a time; write it like 2026-01-31T12:00:00Z or as milliseconds since 1970.",
            field=field,
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


@lru_cache(64)  # the messages of one request often share their time
def time_text(ms: Millis) -> str:
    """RFC 3339 in UTC, to the millisecond; the bare number where that cannot say it."""
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
