"""When a repeating message is due next: by a cron line in a time zone, or every so often."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from goqueue.base.commands import Repeat
from goqueue.base.errors import InvalidField
from goqueue.base.ids import Millis
from goqueue.base.limits import DELAY_MS_MAX

EVERY_MS_MIN: Final = 100
_CRON_CHARS_MAX: Final = 200
_TIMES_MAX: Final = 2**31 - 1


def check_repeat(repeat: Repeat, field: str = "repeat") -> None:
    """`InvalidField` if it never could repeat."""
    if bool(repeat.cron) == bool(repeat.every_ms):
        raise InvalidField("A repetition has either a cron line or every.", field=field)
    if repeat.every_ms and not EVERY_MS_MIN <= repeat.every_ms <= DELAY_MS_MAX:
        raise InvalidField(f"every is at least {EVERY_MS_MIN} ms and at most ten years.", field=f"{field}.every")
    if repeat.every_ms and repeat.timezone:
        raise InvalidField("A time zone belongs to a cron line.", field=f"{field}.timezone")
    if not 0 <= repeat.times <= _TIMES_MAX:
        raise InvalidField("times is a whole number from 1 on.", field=f"{field}.times")
    if repeat.cron:
        _check_cron(repeat, field)


def _check_cron(repeat: Repeat, field: str) -> None:
    if len(repeat.cron) > _CRON_CHARS_MAX:
        raise InvalidField(f"A cron line has at most {_CRON_CHARS_MAX} characters.", field=f"{field}.cron")
    try:
        _zone(repeat.timezone)
    except (ValueError, OSError, KeyError):
        raise InvalidField(
            f"{repeat.timezone!r} is not a time zone; write it like Europe/Berlin.", field=f"{field}.timezone"
        ) from None
    try:
        CronSim(repeat.cron, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidField(
            f"{repeat.cron!r} is not a cron line ({str(error).lower()}); write it like */5 9-17 * * 1-5.",
            field=f"{field}.cron",
        ) from None


def first_due(repeat: Repeat, start: Millis | None, now: Millis) -> Millis | None:
    """A start that was named is the first time for `every`; a cron line begins after it."""
    if repeat.every_ms:
        return start if start is not None else now + repeat.every_ms
    return _cron_after(repeat, max(now, start - 1 if start is not None else now))


def next_due(repeat: Repeat, due: Millis, count: int, now: Millis) -> Millis | None:
    """The first time after now, when it fired `count` times, last for `due`; None if that was the last.

    Times that passed while nobody could fire are left out: the one that fired stands for them.
    """
    if repeat.times and count >= repeat.times:
        return None
    if repeat.every_ms:
        missed = max(0, now - due) // repeat.every_ms
        found: Millis | None = due + (missed + 1) * repeat.every_ms
    else:
        found = _cron_after(repeat, max(due, now))
    return None if found is None or (repeat.until_ms and found > repeat.until_ms) else found


def _cron_after(repeat: Repeat, after: Millis) -> Millis | None:
    moment = datetime.fromtimestamp(after / 1000, _zone(repeat.timezone))
    try:
        return round(next(CronSim(repeat.cron, moment)).timestamp() * 1000)
    except (StopIteration, OverflowError):
        return None


def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name or "UTC")
