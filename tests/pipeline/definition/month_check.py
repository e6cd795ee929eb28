"""What a simulated month publishes, and what has to be there at its end, without Spark."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from numpy.typing import NDArray

Ids = NDArray[np.int64]

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
CUSTOMERS: Final = 20
CHANNELS: Final = ("web", "shop")


class Order(msgspec.Struct, frozen=True):
    id: int
    customer: str
    total: int
    at: str
    channel: str | None = None


class Calendar(msgspec.Struct, frozen=True):
    """Which day has what; each is a day's beginning."""

    days: int
    events: int

    def at(self, share: float) -> int:
        return round(self.days * share)

    @property
    def what(self) -> dict[int, str]:
        return {
            self.at(0.27): "upgrade",
            self.at(0.4): "pause",
            self.at(0.5): "schema",
            self.at(0.6): "node",
            self.at(0.75): "upgrade 2",
        }

    def day_of(self, what: str) -> int:
        return next(day for day, one in self.what.items() if one == what)

    def orders(self, day: int) -> Iterator[Order]:
        has_channel = day >= self.day_of("schema")
        for n in range(self.events):
            number = day * self.events + n
            at = BEGIN + timedelta(days=day, seconds=86_400 * n / self.events)
            channel = CHANNELS[number % 2] if has_channel else None
            yield Order(number, f"c{n % CUSTOMERS}", _total(n), at.isoformat(timespec="seconds"), channel)

    def large_from(self, day: int) -> int:
        return 80 if day >= self.day_of("upgrade 2") else 90

    def totals(self) -> Ids:
        """Of each day."""
        return np.asarray(_total(np.arange(self.events)), np.int64)

    def ids(self, day: int) -> Ids:
        return day * self.events + np.arange(self.events)


def _total(number: Any) -> Any:
    return number * 7 % 100


class Copies:
    """A topic of orders as a reader of committed messages sees it, read on from where it was read last."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        settings = {"group.id": "copies", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._ids = array("q")

    def ids(self) -> array[int]:
        """All that there are by now; may be short of the last ones."""
        while found := self._consumer.consume(10_000, 1.0):
            self._ids.extend(json.loads(one.value() or b"")["id"] for one in found if one.error() is None)
        return self._ids

    def close(self) -> None:
        self._consumer.close()


def large_ids(calendar: Calendar, last: int) -> Ids:
    """Of the orders that are copied to a topic, up to the end of a day."""
    totals = calendar.totals()
    return np.concatenate([calendar.ids(day)[totals >= calendar.large_from(day)] for day in range(last + 1)])


def check(calendar: Calendar, lake: Path, copied: array[int]) -> None:
    """Every row of every table and of the topic, none missing, none twice."""
    days, totals = range(calendar.days), calendar.totals()
    assert np.array_equal(np.sort(np.asarray(copied)), large_ids(calendar, days[-1]))
    broken = DeltaTable(str(lake / "quarantine")).to_pyarrow_table(columns=["row"])["row"].to_pylist()
    refused = np.concatenate([calendar.ids(day)[totals == 0] for day in days])
    assert np.array_equal(np.sort([json.loads(row)["id"] for row in broken]), refused)
    _check_kept(calendar, DeltaTable(str(lake / "orders")))
    _check_daily(calendar, DeltaTable(str(lake / "daily")))


def _check_kept(calendar: Calendar, table: DeltaTable) -> None:
    columns = ["id", "total", "is_half", "channel"]
    kept = table.to_pyarrow_table(columns=columns).sort_by("id")
    totals, begin = calendar.totals(), 0
    valid = totals > 0
    for day in range(calendar.days):
        ids, total = calendar.ids(day)[valid], totals[valid]
        is_half = [None] * len(ids) if day < calendar.day_of("upgrade") else list(total >= 50)
        has_channel = day >= calendar.day_of("schema")
        channel = [CHANNELS[one] for one in ids % 2] if has_channel else [None] * len(ids)
        part, begin = kept.slice(begin, len(ids)), begin + len(ids)
        arrays = [pa.array(ids), pa.array(total), pa.array(is_half, pa.bool_()), pa.array(channel, pa.string())]
        expected = pa.table(arrays, columns).cast(part.schema)
        assert part.combine_chunks().equals(expected.combine_chunks()), f"day {day} is not as it was published"
    assert begin == kept.num_rows


def _check_daily(calendar: Calendar, table: DeltaTable) -> None:
    totals, who = calendar.totals(), np.arange(calendar.events) % CUSTOMERS
    counts = np.bincount(who[totals > 0], minlength=CUSTOMERS)
    sums = np.bincount(who, totals, CUSTOMERS)
    expected = {
        (f"c{one}", (BEGIN + timedelta(days=day)).date()): (counts[one], sums[one])
        for day in range(calendar.days)
        for one in range(CUSTOMERS)
        if counts[one]
    }
    found = table.to_pyarrow_table().to_pylist()
    assert {(row["customer"], row["day"]): (row["orders"], row["total"]) for row in found} == expected
    assert len(found) == len(expected)
