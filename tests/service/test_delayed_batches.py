"""Batches of Kafka producers whose records ask for a delay: taken out, delivered once, also for those who retry."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import msgspec
import pytest

from goqueue.base.commands import Browse, PublishBatch
from goqueue.base.errors import InvalidBatch, OutOfOrderSequence
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.format.batch import HEADER_BYTES, assemble, read_header, split
from goqueue.format.records import NewRecord, build, decode
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.cuts import CUT_STEP, at_leisure, first_cut, tears
from tests.service.brokers import broker_alone, broker_on, fetch_all, settings, shard_of

AT = TopicPartition("t", 0)


def batch(*records: tuple[str, str | None], sequence: int = -1, codec: int = 0) -> bytes:
    """Records as (value, delay) of producer 3, or of nobody."""
    made = build(
        [
            NewRecord(None, value.encode(), (("h", b"1"), ("goqueue-delay", delay.encode())) if delay else (), 1_000)
            for value, delay in records
        ],
        codec,
    )
    header = read_header(made)
    if sequence >= 0:
        header = msgspec.structs.replace(header, producer_id=3, producer_epoch=0, base_sequence=sequence)
    return assemble(header, made[HEADER_BYTES:])


async def send(broker: Broker, given: bytes) -> int:
    return (await broker.publish.batch(PublishBatch(AT, given))).base_offset


async def values(broker: Broker) -> list[tuple[int, str]]:
    page = await broker.browsing.read(Browse("t", {0: 0}, 10_000))
    return [(one.offset, (one.value or b"").decode()) for one in page.messages]


@pytest.mark.parametrize("codec", range(5))
def test_records_with_a_delay_are_taken_out_and_come_when_due(codec: int) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"retention.ms": -1})
            long = "x" * 300
            given = batch(
                ("a" + long, None), ("b" + long, "10s"), ("c" + long, None), ("d" + long, "5000"), codec=codec
            )
            assert (codec == 0) == (read_header(given).codec == 0)
            assert await send(broker, given) == 0
            assert [(at, value[0]) for at, value in await values(broker)] == [(0, "a"), (2, "c")]
            assert await send(broker, batch(("e", None))) == 4
            await asyncio.sleep(11)
            assert [(at, value[0]) for at, value in await values(broker)] == [
                (0, "a"),
                (2, "c"),
                (4, "e"),
                (5, "d"),
                (6, "b"),
            ]
            last = (await fetch_all(broker, "t", 6))[0]
            assert last.headers == (("h", b"1"), ("goqueue-scheduled", b"%d:0" % shard_of(broker, "t")))

    run_virtually(scenario)


def test_a_batch_of_which_nothing_is_left_is_stored_and_read_over() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {"retention.ms": -1})
            assert await send(broker, batch(("a", "10s"), ("b", "10s"), sequence=0)) == 0
            assert await send(broker, batch(("c", None), sequence=2)) == 2
            assert await values(broker) == [(2, "c")]
            assert await send(broker, batch(("a", "10s"), ("b", "10s"), sequence=0)) == 0, "a retry is recognised"
        async with broker_on(disk, loop) as broker:
            raw = broker.topics.require("t").partitions[0].log.read(0, 1 << 20, 100, wait=True)
            first, second = list(split(raw))
            assert (read_header(first).record_count, read_header(first).last_offset_delta) == (0, 1)
            assert decode(first) == [] and len(decode(second)) == 1
            assert await send(broker, batch(("a", "10s"), ("b", "10s"), sequence=0)) == 0
            with pytest.raises(OutOfOrderSequence):
                await send(broker, batch(("x", "10s"), sequence=7))
            await asyncio.sleep(11)
            assert [value for _, value in await values(broker)] == ["c", "a", "b"]

    run_virtually(scenario)


def test_what_is_no_delay_is_refused_and_what_is_past_stays() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"retention.ms": -1})
            for wrong in ("soon", "-5", "", "200000d"):
                with pytest.raises(InvalidBatch):
                    await send(
                        broker, batch(("a", None), ("b", wrong)) if wrong else _with(b"goqueue-deliver-at", None)
                    )
            assert await values(broker) == []
            await send(broker, batch(("a", "0"), ("b", None)))
            await send(broker, _with(b"goqueue-deliver-at", b"1000"))
            assert [value for _, value in await values(broker)] == ["a", "b", "v"]
            await broker.topics.create("u", 1, {"queue.delay.headers": "false"})
            at = TopicPartition("u", 0)
            await broker.publish.batch(PublishBatch(at, batch(("a", "nonsense"))))

    run_virtually(scenario)


def _with(name: bytes, value: bytes | None) -> bytes:
    return build([NewRecord(None, b"v", ((name.decode(), value),), 1_000)])


@pytest.mark.parametrize(("fsync", "mode"), [("always", "dropped"), ("always", "torn"), ("interval", "kept")])
def test_a_cut_at_every_write_and_a_producer_that_retries(fsync: str, mode: CrashMode) -> None:
    """The producer goes on until its batch is acknowledged; then each of its messages is there once."""
    chosen = settings(fsync=fsync)
    batches = [batch((f"{n}a", None), (f"{n}b", "30s"), (f"{n}c", f"{40 + n}s"), sequence=3 * n) for n in range(4)]
    crash_at = first_cut(mode)
    while True:
        disk, acked, cut = SimDisk(crash_at), 0, False

        async def first(loop: VirtualLoop, disk: SimDisk = disk) -> None:
            nonlocal acked, cut
            gone = loop.create_future()

            def on_power_cut() -> None:
                nonlocal cut
                cut = True
                if not gone.done():
                    gone.set_result(None)

            disk.on_power_cut = on_power_cut

            async def life() -> None:
                nonlocal acked
                broker = broker_alone(chosen, disk, VirtualClock(loop))
                await broker.start()
                await broker.topics.create("t", 1, {"retention.ms": -1})
                for one in batches:
                    await send(broker, one)
                    acked += 1
                await asyncio.sleep(1)

            living = asyncio.ensure_future(life())
            await asyncio.wait([living, gone], return_when=asyncio.FIRST_COMPLETED)
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

        with contextlib.suppress(PowerCut):
            run_virtually(first)
        if not cut:
            break
        for seed in tears(mode, crash_at):
            after = disk.crash(mode, seed)

            async def second(loop: VirtualLoop, after: SimDisk = after, acked: int = acked) -> None:
                async with broker_on(after, loop, at_leisure(chosen)) as broker:
                    if broker.topics.find("t") is None:
                        await broker.topics.create("t", 1, {"retention.ms": -1})
                    for one in batches[acked:]:
                        await send(broker, one)
                    await asyncio.sleep(20)
                    seen = [value for _, value in await values(broker)]
                    assert all(value.endswith("a") for value in seen), "nothing comes early"
                    await asyncio.sleep(60)
                    count = Counter(value for _, value in await values(broker))
                    assert count == Counter(f"{n}{kind}" for n in range(4) for kind in "abc")

            try:
                run_virtually(second)
            except BaseException:
                print(f"crash_at={crash_at} seed={seed} acked={acked}")
                raise
        crash_at += CUT_STEP
    assert crash_at > 30
