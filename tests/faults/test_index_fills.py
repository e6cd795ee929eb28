"""The delay index finds no space, or is damaged: what is delivered, when and where, is what the schedule log says."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from goqueue.base.commands import InputMessage, PublishMessages, ScheduledAt
from goqueue.base.node_settings import NodeSettings
from goqueue.broker import Broker
from goqueue.core.schedule.records import EntryEnded, ScheduleEntry
from goqueue.drive.schedule_index import ScheduleIndex
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.service.brokers import broker_alone, fetch_all, settings

TOPICS = 12


class Room:
    """How many pages the index's file may have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages = 1 << 30
        connect = ScheduleIndex._connect
        room = self

        def connected(self: ScheduleIndex, path: str) -> sqlite3.Connection:
            db = connect(self, path)
            db.execute(f"PRAGMA max_page_count = {room.pages}")
            return db

        monkeypatch.setattr(ScheduleIndex, "_connect", connected)

    @contextmanager
    def none_left(self, index: ScheduleIndex) -> Iterator[None]:
        """From now on the file cannot grow; afterwards it can again."""
        db = index._open_db()
        self.pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {self.pages}")
        yield
        self.pages = 1 << 30
        if index._db is not None:
            index._db.execute(f"PRAGMA max_page_count = {self.pages}")


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(monkeypatch)


@asynccontextmanager
async def broker_with(disk: SimDisk, loop: VirtualLoop, path: Path) -> AsyncIterator[Broker]:
    one_index = msgspec.structs.replace(settings(), node=NodeSettings(shards=1))
    broker = broker_alone(one_index, disk, VirtualClock(loop), index=str(path))
    await broker.start()
    yield broker
    await broker.stop()


async def delay(broker: Broker, topic: str, value: str, delay_ms: int) -> None:
    (result,) = await broker.publish.messages(
        PublishMessages(topic, [InputMessage(None, value.encode(), delay_ms=delay_ms)])
    )
    assert isinstance(result, ScheduledAt)


async def check(broker: Broker, per_topic: int) -> None:
    for number in range(TOPICS):
        values = [(one.value or b"").decode() for one in await fetch_all(broker, f"t{number}", 0)]
        assert sorted(values) == sorted(f"t{number} {n}" for n in range(per_topic))


def entry(topic: str, due_ms: int) -> ScheduleEntry:
    return ScheduleEntry(topic, 0, due_ms, None, b"")


def test_a_failed_write_leaves_no_topic_numbers_behind(tmp_path: Path, room: Room) -> None:
    """Otherwise the next topic gets the number of one that is not in the file, and its messages too."""
    index = ScheduleIndex(str(tmp_path / "index"))
    index.open("log", 0)
    index.apply([(0, entry("a", 10))], 1)
    many = [(offset, entry("b" * 200 + f"{offset}", 20)) for offset in range(1, 200)]
    with room.none_left(index), pytest.raises(sqlite3.OperationalError):
        index.apply(many, 200)
    assert not index.is_open
    assert index.open("log", 200) == 1
    index.apply([(1, entry("c", 30)), (2, entry("b", 40))], 3)
    assert [(due.offset, due.topic_id) for due in index.window(0, 100, 10)] == [(0, "a"), (1, "c"), (2, "b")]
    again = ScheduleIndex(str(tmp_path / "index"))
    assert again.open("log", 3) == 3
    assert again.pending_counts() == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize("damage", ["UPDATE pending SET topic = 77", "DELETE FROM topics", "DROP TABLE facts"])
def test_an_index_that_contradicts_itself_is_made_anew(tmp_path: Path, damage: str) -> None:
    index = ScheduleIndex(str(tmp_path / "index"))
    index.open("log", 0)
    index.apply([(0, entry("a", 10)), (1, entry("b", 20)), (2, EntryEnded(1, "b", 0, 20, "cancelled", 5))], 3)
    index.close()
    with sqlite3.connect(tmp_path / "index") as db:
        db.execute(damage)
    assert index.open("log", 3) == 0


def test_without_room_for_its_file_the_index_lives_in_memory(tmp_path: Path) -> None:
    index = ScheduleIndex(str(tmp_path / "no such directory" / "index"))
    assert index.open("log", 5) == 0
    index.apply([(0, entry("a", 10))], 1)
    assert index.pending_counts() == {"a": 1}


def test_a_full_disk_sends_no_delayed_message_to_another_topic(tmp_path: Path, room: Room) -> None:
    disk = SimDisk()

    async def first(loop: VirtualLoop) -> None:
        async with broker_with(disk, loop, tmp_path / "index") as broker:
            for number in range(TOPICS):
                await broker.topics.create(f"t{number}", 1, {})
            await asyncio.sleep(1)
            with room.none_left(broker.schedules._runners[0].store.index):
                for number in range(TOPICS):
                    for n in range(30):
                        await delay(broker, f"t{number}", f"t{number} {n}", 600_000)
                    await asyncio.sleep(3)
            for number in reversed(range(TOPICS)):
                await delay(broker, f"t{number}", f"t{number} 30", 600_000)
                await asyncio.sleep(2)

    async def second(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 300.0
        async with broker_with(disk, loop, tmp_path / "index") as broker:
            assert (await broker.scheduling.stats()).pending == TOPICS * 31
            await asyncio.sleep(900)
            await check(broker, 31)

    run_virtually(first)
    run_virtually(second)


@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE pending SET topic = topic % 12 + 1",
        "UPDATE pending SET due = due - 3000000",
        "UPDATE pending SET partition = 3",
    ],
)
def test_what_the_index_says_wrongly_is_seen_before_a_message_goes_out(tmp_path: Path, lie: str) -> None:
    disk = SimDisk()

    async def first(loop: VirtualLoop) -> None:
        async with broker_with(disk, loop, tmp_path / "index") as broker:
            for number in range(TOPICS):
                await broker.topics.create(f"t{number}", 4, {})
                message = InputMessage(None, f"t{number} 0".encode(), delay_ms=3_600_000, partition=0)
                await broker.publish.messages(PublishMessages(f"t{number}", [message]))
            await asyncio.sleep(2)

    async def second(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 1_000.0
        async with broker_with(disk, loop, tmp_path / "index") as broker:
            await asyncio.sleep(2_000)
            await check(broker, 0)
            await asyncio.sleep(1_000)
            await check(broker, 1)
            assert (await broker.scheduling.stats()).pending == 0

    run_virtually(first)
    with sqlite3.connect(tmp_path / "index") as db:
        db.execute(lie)
    run_virtually(second)
