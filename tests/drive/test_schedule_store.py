"""The index of a schedule is used by one thread at a time, whoever gave up waiting for it meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from goqueue.base.errors import Overloaded
from goqueue.base.ids import Offset
from goqueue.core.schedule.machine import ScheduleMachine
from goqueue.drive.offload import Threads
from goqueue.drive.partition import Partition
from goqueue.drive.schedule_index import ScheduleIndex
from goqueue.drive.schedule_store import ScheduleStore


class SlowIndex(ScheduleIndex):
    """Takes its time to open, and notes whether it is closed meanwhile: SQLite would bring the process down."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.is_opening = threading.Event()
        self.was_closed = threading.Event()
        self.was_closed_too_early = False

    def open(self, log_id: str, end_offset: Offset) -> Offset:
        self.was_closed.clear()
        self.is_opening.set()
        self.was_closed_too_early = self.was_closed.wait(0.3)
        return super().open(log_id, end_offset)

    def close(self) -> None:
        self.was_closed.set()
        super().close()


class EmptyLog:
    start_offset = end_offset = 0

    def batches(self, start: Offset) -> list[memoryview]:
        return []


class EmptyPartition:
    log = EmptyLog()


def test_a_shard_that_is_given_up_while_its_schedule_is_loaded(tmp_path: Path) -> None:
    async def scenario() -> None:
        index, threads = SlowIndex(str(tmp_path / "index")), Threads()
        store, partition = ScheduleStore(index, threads, "interval"), cast(Partition, EmptyPartition())
        machine = cast(ScheduleMachine, type("Machine", (), {"recount": lambda *_: None})())
        loading = asyncio.ensure_future(threads(lambda: store.open(machine, partition, "log")))
        await threads(index.is_opening.wait)
        loading.cancel()  # whoever loads it is told that another node leads; its thread goes on
        await store.close()
        assert not index.was_closed_too_early and index.was_closed.is_set() and not index.is_open
        threads.close()

    asyncio.run(scenario())


def test_an_index_that_fails_is_closed_and_opened_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        threads = Threads()
        store = ScheduleStore(ScheduleIndex(str(tmp_path / "index")), threads, "interval")
        machine: Any = type("Machine", (), {"recount": lambda *_: None, "take_unindexed": lambda _: []})()
        await threads(lambda: store.open(machine, cast(Partition, EmptyPartition()), "log"))

        def fail() -> None:
            raise sqlite3.OperationalError("disk I/O error")

        with pytest.raises(Overloaded, match="cannot be used"):
            await store.look(fail)
        assert not store.index.is_open
        assert await store.look(store.index.next_due) is None
        await store.close()
        threads.close()

    asyncio.run(scenario())
