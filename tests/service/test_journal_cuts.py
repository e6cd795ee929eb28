"""Power cuts at random moments of a busy life under `fsync=always`: what any door promised is there afterwards.

Producers of all doors, a queue, a share consumer, offsets of a group, a topic that is deleted and made again, all at
once. The journal is small, so that its files take turns, and much is large enough to be synced in its log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from typing import Final

import pytest

from goqueue.base.commands import (
    DeduplicationScope,
    InputMessage,
    OnceMessage,
    PublishBatch,
    PublishedOnce,
    PublishMessages,
    PublishOnce,
    StoredAt,
)
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.limits import KIB
from goqueue.base.settings import Settings
from goqueue.base.sqs_envelope import Envelope
from goqueue.broker import Broker
from goqueue.core.groups.requests import CommitRequest, OffsetCommit, ShareHeartbeat
from goqueue.drive import flusher
from goqueue.format.records import NewRecord, build
from goqueue.service.sharing import ACCEPT, AnswerRange, ShareTake
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.cuts import run_until_cut
from tests.log.logs import read_all
from tests.long import LONG
from tests.service.brokers import broker_on, publish, settings

ROUNDS: Final = 1_000 if LONG else 200
MODES: Final[tuple[CrashMode, ...]] = ("dropped", "torn", "torn", "kept")
PARTITIONS: Final = 3
EVERYWHERE: Final = [TopicPartition("t", number) for number in range(PARTITIONS)]
SHARE_GROUP: Final = "s"


class Ledger:
    """What was answered."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.stored: dict[tuple[str, int, int], str] = {}  # by topic, partition, offset
        self.sent: set[str] = set()  # to wherever
        self.acked: set[str] = set()
        self.accepted: set[tuple[int, int]] = set()  # by the share consumer: partition, offset
        self.committed = 0
        self.lives = 0  # of the topic that is made again

    def text(self, who: str, number: int) -> str:
        return f"{who}-{number}-" + "x" * self.chance.choice((5, 40, 300, 900))


async def rest(broker: Broker, ledger: Ledger) -> None:
    for number in range(12):
        values = [ledger.text("rest", number * 3 + one) for one in range(ledger.chance.choice((1, 1, 3)))]
        messages = [InputMessage(None, value.encode(), partition=number % PARTITIONS) for value in values]
        for value, stored in zip(values, await broker.publish.messages(PublishMessages("t", messages)), strict=True):
            assert isinstance(stored, StoredAt)
            ledger.stored["t", stored.partition, stored.offset] = value


async def kafka(broker: Broker, ledger: Ledger) -> None:
    for number in range(12):
        value = ledger.text("kafka", number)
        batch = build([NewRecord(None, value.encode(), (), 1_000)])
        appended = await broker.publish.batch(PublishBatch(TopicPartition("t", number % PARTITIONS), batch))
        ledger.stored["t", number % PARTITIONS, appended.base_offset] = value


async def sqs(broker: Broker, ledger: Ledger) -> None:
    for number in range(8):
        value = ledger.text("sqs", number)
        once = OnceMessage(InputMessage(b"g", value.encode(), partition=0), Envelope(deduplication_id=f"{number}"))
        (stored,) = await broker.publish_once.messages(PublishOnce(DeduplicationScope("t"), [once]))
        assert isinstance(stored, PublishedOnce)
        ledger.sent.add(value)


async def queue(broker: Broker, ledger: Ledger) -> None:
    for _ in range(10):
        found = await broker.leasing.take(Take("g", EVERYWHERE, "me", 3, wait_ms_max=50, lease_ms=600_000))
        if found and await broker.leasing.ack([one.receipt for one in found]) == [None] * len(found):
            ledger.acked |= {(one.stored.value or b"").decode() for one in found}


async def share(broker: Broker, ledger: Ledger) -> None:
    """A share consumer: batches as ranges, in a group of its own."""
    await broker.groups.configure(SHARE_GROUP, {"share.auto.offset.reset": "earliest"})
    told = broker.groups.share_heartbeat(ShareHeartbeat(SHARE_GROUP, "m", 0, subscribed_topics=["t"]))
    result = await told if isinstance(told, Awaitable) else told
    assert not isinstance(result, Exception), result
    for _ in range(10):
        found = await broker.sharing.acquire(ShareTake(SHARE_GROUP, "m", EVERYWHERE, 3, 1 << 20, 50))
        answers = {part.at: [AnswerRange(one.first, one.last, (ACCEPT,)) for one in part.ranges] for part in found}
        outcomes = await broker.sharing.acknowledge(SHARE_GROUP, "m", answers)
        for at in (at for at, outcome in outcomes.items() if outcome is None):
            some = [offset for one in answers[at] for offset in range(one.first, one.last + 1)]
            ledger.accepted.update((at.partition, offset) for offset in some)


async def offsets(broker: Broker, ledger: Ledger) -> None:
    for number in range(1, 9):
        await broker.groups.commit_all(CommitRequest("other", "", -1, None, [OffsetCommit("t", 1, number)]))
        ledger.committed = number


async def topics(broker: Broker, ledger: Ledger) -> None:
    for life in range(1, 4):
        await broker.topics.create("again", 1, {})
        ledger.lives = life
        for number in range(4):
            value = f"{life}.{number}"
            await publish(broker, "again", value)
            ledger.stored["again", 0, number] = value
        if life < 3:
            for number in range(4):
                del ledger.stored["again", 0, number]
            await broker.topics.delete("again")


async def a_busy_life(broker: Broker, ledger: Ledger) -> None:
    await broker.topics.create("t", PARTITIONS, {"segment.bytes": "4096"})
    await asyncio.gather(*(one(broker, ledger) for one in (rest, kafka, sqs, queue, share, offsets, topics)))


async def check(broker: Broker, ledger: Ledger) -> None:
    assert broker.node.replay.damaged == 0, "a torn write was taken for damage"
    if broker.topics.find("t") is None:
        assert not ledger.stored
        return
    found = {
        (topic.name, number, record.offset): (record.value or b"").decode()
        for topic in broker.topics.all()
        if not topic.is_internal
        for number, partition in enumerate(topic.partitions)
        for record in read_all(partition.log)
    }
    lost = {at: value[:20] for at, value in ledger.stored.items() if found.get(at) != value}
    assert not lost, f"promised and gone, or another in its place: {lost}"
    assert ledger.sent <= set(found.values())
    again = [value for (topic, _, _), value in found.items() if topic == "again"]
    assert len({value.partition(".")[0] for value in again}) <= 1, "a deleted topic's messages came back"
    position = broker.groups.offsets("other").get(TopicPartition("t", 1))
    assert (position.offset if position else 0) >= ledger.committed
    shared: set[tuple[int, int]] = set()
    while taken := await broker.leasing.take(Take(SHARE_GROUP, EVERYWHERE, "me", 100, lease_ms=600_000)):
        shared |= {(one.stored.partition, one.stored.offset) for one in taken}
    assert not shared & ledger.accepted, "accepted and handed out again"
    handed: set[str] = set()
    while taken := await broker.leasing.take(Take("g", EVERYWHERE, "me", 100, wait_ms_max=0, lease_ms=600_000)):
        handed |= {(one.stored.value or b"").decode() for one in taken}
    assert not handed & ledger.acked, "acknowledged and handed out again"


def check_after(disk: SimDisk, chosen: Settings, ledger: Ledger) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 60.0
        async with broker_on(disk, loop, chosen) as broker:
            await check(broker, ledger)

    run_virtually(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("journal_bytes", [64 * KIB, 0])
def test_what_was_promised_outlasts_power_cuts(journal_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flusher, "JOURNALED_BYTES_MAX", 700)
    chosen = settings(fsync="always", fsync_interval_ms=50, journal_bytes=journal_bytes)
    whole = SimDisk()
    assert not run_until_cut(whole, chosen, a_busy_life, Ledger(0))
    chance = random.Random(journal_bytes)
    for number in range(ROUNDS if journal_bytes else ROUNDS // 4):
        disk, ledger = SimDisk(chance.randrange(whole.steps)), Ledger(0)
        mode = MODES[number % len(MODES)]
        run_until_cut(disk, chosen, a_busy_life, ledger)
        try:
            check_after(disk.crash(mode, seed=number), chosen, ledger)
        except BaseException:
            print(f"crash_at={disk.crash_at} mode={mode} seed={number}")
            raise
