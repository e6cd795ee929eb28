"""Where the journal is synced: on the loop only while the disk is quick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from goqueue.drive.sync_place import SyncPlace
from goqueue.log.journal import JournalJob

T = TypeVar("T")


class Timed:
    """A job that takes so long, as it says."""

    def __init__(self, seconds: float) -> None:
        self.takes = seconds
        self.seconds = 0.0

    def run(self) -> None:
        self.seconds = self.takes


def places(milliseconds: Iterable[float]) -> str:
    """`l` for each that ran on the loop, `t` for each that ran on a thread."""
    told: list[str] = []

    async def offload(work: Callable[[], T]) -> T:
        told[-1] = "t"
        return work()

    async def main() -> None:
        place = SyncPlace(cast(Any, offload))
        for one in milliseconds:
            told.append("l")
            await place.run(cast(JournalJob, Timed(one / 1000)))

    asyncio.run(main())
    return "".join(told)


def test_quick_syncs_move_to_the_loop_after_a_few() -> None:
    assert places([0.2] * 20) == "t" * 15 + "l" * 5


def test_slow_syncs_stay_on_a_thread() -> None:
    assert places([0.8] * 40) == "t" * 40


def test_one_long_sync_leaves_the_loop_alone_until_it_is_long_ago() -> None:
    assert places([0.2] * 15 + [50.0] + [0.2] * 20) == "t" * 15 + "l" + "t" * 15 + "l" * 5


def test_a_disk_that_becomes_slow_is_left_to_a_thread() -> None:
    assert places([0.2] * 20 + [0.9] * 20).endswith("t" * 12)
