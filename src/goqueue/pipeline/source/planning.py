"""How a batch becomes Spark partitions: small ranges together in one, big ones split.

Each wave of Python tasks costs about 50 ms whatever it reads, as much as some 50,000 rows do; so a task is worth
starting for about that many. And no task is so large that one that fails has much to repeat.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.pipeline.link.place import OffsetRange

TASK_ROWS_MIN: Final = 50_000
TASK_ROWS_MAX: Final = 1_250_000


class Wishes(msgspec.Struct, frozen=True):
    """What the user wants of the partitions, as Spark's Kafka source names it."""

    min_partitions: int | None = None
    max_records_per_partition: int | None = None


def plan(ranges: Sequence[OffsetRange], wishes: Wishes, cores: int | None = None) -> list[list[OffsetRange]]:
    """The ranges of each task: every offset is in exactly one task, no task is empty, and all are of about one size.

    `cores` is how many tasks run at once, as far as the driver can know.
    """
    rows = sum(max(0, one.end - one.start) for one in ranges)
    tasks = _task_count(rows, wishes, cores or os.cpu_count() or 1)
    return _cut(ranges, [rows * number // tasks for number in range(1, tasks + 1)])


def _task_count(rows: int, wishes: Wishes, cores: int) -> int:
    """As many as run at once, if each is worth it and none is too large; more if the user wants that."""
    even = min(max(-(-rows // cores), TASK_ROWS_MIN), TASK_ROWS_MAX)
    most = min(even, wishes.max_records_per_partition or even)
    return min(rows, max(-(-rows // most), wishes.min_partitions or 1))


def _cut(ranges: Sequence[OffsetRange], cuts: Sequence[int]) -> list[list[OffsetRange]]:
    """Laid end to end, and cut where so many rows are passed."""
    tasks: list[list[OffsetRange]] = [[] for _ in cuts]
    passed = number = 0
    for one in ranges:
        start = one.start
        while start < one.end:
            end = min(one.end, start + cuts[number] - passed)
            tasks[number].append(OffsetRange(one.topic, one.partition, start, end))
            passed, start = passed + end - start, end
            number += passed == cuts[number]
    return tasks
