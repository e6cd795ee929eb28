"""Times by the clock: which tick of a cron line is due. No clock of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from goqueue.worker.errors import InvalidOption


class CronEntry(msgspec.Struct, frozen=True):
    """A task, and when it runs."""

    task: str
    line: str
    timezone: str = "UTC"

    def after(self, moment: datetime) -> datetime:
        """The first tick after that moment."""
        local = moment.astimezone(ZoneInfo(self.timezone))
        return next(CronSim(self.line, local)).astimezone(UTC)


def cron_entry(task: str, line: str, timezone: str) -> CronEntry:
    """`InvalidOption` for what is no cron line or time zone."""
    try:
        entry = CronEntry(task, line, timezone)
        entry.after(datetime(2024, 1, 1, tzinfo=UTC))
    except (CronSimError, StopIteration):
        raise InvalidOption(f"{line!r} is no cron line that ever comes true; write it like 0 3 * * *.") from None
    except (ZoneInfoNotFoundError, ValueError):
        raise InvalidOption(f"There is no time zone {timezone!r}; write it like Europe/Berlin.") from None
    return entry
