"""The power goes at every write and sync of a life with transactions: each is wholly visible or wholly invisible."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from goqueue.base.settings import Settings, TransactionSettings
from goqueue.broker import Broker
from goqueue.sim.disk import CrashMode, SimDisk
from tests.cuts import CUT_STEP, first_cut
from tests.service.brokers import settings
from tests.txn.checker import Kind, check
from tests.txn.history import History
from tests.txn.world import TIMEOUT_MS, Client, Reader, Story, live, read_to_the_end, stuck

pytestmark = pytest.mark.slow


async def a_life(broker: Broker, history: History) -> None:
    """Commit, abort, time-out and a replaced producer, over two partitions, with and without new epochs."""
    first, second, silent = (Client(broker, history, "a"), Client(broker, history, "b", True), Client(broker, history))
    watching = Reader(broker, history, "watching")
    for client in (first, second, silent):
        await client.init()
    silent.begin()
    await silent.write(1, "silent")
    for turn in range(3):
        for name, client in (("a", first), ("b", second)):
            client.begin()
            await client.write(0, f"{turn}.{name}.0")
            await client.write(1, f"{turn}.{name}.1", f"{turn}.{name}.2")
        await (first.commit() if turn != 1 else first.abort())
        await watching.poll()
        await (second.commit() if turn != 2 else second.abort())
    await asyncio.sleep(TIMEOUT_MS / 1000 + 2)
    await watching.poll()
    second.begin()
    await second.write(0, "left open")
    heir = Client(broker, history, "b")
    await heir.init()
    heir.begin()
    await heir.write(0, "heir")
    await heir.commit()
    await watching.poll()


async def the_next_life(broker: Broker, history: History) -> None:
    """Producers come back, and everything can be read."""
    for name in ("a", "b"):
        client = Client(broker, history, name)
        await client.init()
        client.begin()
        await client.write(0, f"next.{name}.0")
        await client.write(1, f"next.{name}.1")
        await client.commit()
    await read_to_the_end(broker, history)
    assert stuck(broker) == []


def cut_everywhere(
    chosen: Settings,
    mode: CrashMode,
    allowed: frozenset[Kind] = frozenset(),
    a_life: Story = a_life,
    first: int = 0,
) -> int:
    """Answers with how many places there were."""
    crash_at = first + first_cut(mode)
    wrong: list[str] = []
    while True:
        disk, history = SimDisk(crash_at), History()
        if not live(disk, a_life, history, chosen):
            assert not wrong, "\n".join(wrong[:20]) + f"\n{len(wrong)} in all"
            return crash_at
        try:
            assert not live(disk.crash(mode, seed=crash_at), the_next_life, history, chosen, at_s=60)
            wrong += [f"{crash_at}: {one}" for one in check(history) if one.kind not in allowed]
        except Exception as why:
            wrong.append(f"{crash_at}: {why!r}"[:300])
        crash_at += CUT_STEP


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_cut_at_every_write_where_answers_wait_for_the_disk(mode: CrashMode) -> None:
    cuts = cut_everywhere(settings(fsync="always"), mode)
    print(f"{cuts} cuts")
    assert cuts > 100


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_cut_at_every_write_where_the_disk_follows(mode: CrashMode) -> None:
    """What was answered just before the cut may be gone, even a part of a transaction, since each log loses its own
    last moments. But nothing aborted is ever seen, nothing comes twice, and nobody waits for ever."""
    forgiven = {Kind.LOST, Kind.TWO_VALUES, Kind.TORN} if mode != "kept" else set()
    chosen = settings(fsync="interval", fsync_interval_ms=100)
    cuts = cut_everywhere(chosen, mode, frozenset(forgiven))
    print(f"{cuts} cuts")
    assert cuts > 60


@pytest.mark.parametrize("mode", ["dropped", "torn"])
def test_a_cut_at_every_write_where_only_transactions_wait_for_the_disk(mode: CrashMode) -> None:
    chosen = msgspec.structs.replace(
        settings(fsync="interval", fsync_interval_ms=100), transactions=TransactionSettings(sync="always")
    )
    cuts = cut_everywhere(chosen, mode)
    print(f"{cuts} cuts")
    assert cuts > 100
