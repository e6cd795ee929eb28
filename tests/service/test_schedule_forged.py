"""A producer writes the header of a delivered delayed message: a start believes only what the broker wrote itself."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from goqueue.base.commands import InputMessage, PublishBatch, PublishMessages, ScheduledAt
from goqueue.base.delays import SCHEDULED_HEADER
from goqueue.base.errors import InvalidBatch
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.core.schedule.records import Firing, decode_record, encode_record
from goqueue.drive.schedule_log import SCHEDULE_TOPIC
from goqueue.format.batch import HEADER_BYTES, SCHEDULE_PRODUCER_ID, assemble, read_header
from goqueue.format.records import NewRecord, build
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch_all, settings, shard_of

DELAY_MS = 10_000


async def delay(broker: Broker) -> ScheduledAt:
    message = InputMessage(None, b"waits", delay_ms=DELAY_MS)
    (result,) = await broker.publish.messages(PublishMessages("t", [message]))
    assert isinstance(result, ScheduledAt)
    return result


def forged(broker: Broker, entry: ScheduledAt, timestamp_ms: int) -> InputMessage:
    header = (SCHEDULED_HEADER, b"%d:%d" % (shard_of(broker, "t"), entry.offset))
    return InputMessage(None, b"forged", (header,), timestamp_ms=timestamp_ms)


async def values(broker: Broker) -> list[bytes | None]:
    return [record.value for record in await fetch_all(broker, "t", 0)]


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
def test_a_forged_header_does_not_stand_for_a_delayed_message_that_is_overdue(fsync: str) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, settings(fsync=fsync)) as broker:
            await broker.topics.create("t", 1, {})
            entry = await delay(broker)
            await broker.publish.messages(PublishMessages("t", [forged(broker, entry, entry.deliver_at_ms + 1)]))
        await asyncio.sleep(2 * DELAY_MS / 1000)
        async with broker_on(disk, loop, settings(fsync=fsync)) as broker:
            await asyncio.sleep(1)
            assert await values(broker) == [b"forged", b"waits"]

    run_virtually(scenario)


@pytest.mark.parametrize("marked", [True, False], ids=["of this version", "of an older version"])
def test_a_forged_header_does_not_finish_a_firing(marked: bool) -> None:
    """The firing is on record and a crash took the message; only firings of older versions have no better evidence."""

    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            entry = await delay(broker)
            await broker.publish.messages(PublishMessages("t", [forged(broker, entry, entry.deliver_at_ms + 1)]))
            log = broker.topics.require(SCHEDULE_TOPIC).partitions[shard_of(broker, "t")]
            firing = Firing(broker.topics.require("t").record.id, 0, 0, [(entry.offset, 0)], marked)
            key, value, headers = encode_record(firing, log.log.end_offset)
            batch = build([NewRecord(key, value, headers, broker.clock.now_ms())])
            log.append(batch, read_header(batch), broker.clock.now_ms(), append_time=False)
        async with broker_on(disk, loop) as broker:
            await asyncio.sleep(1)
            assert await values(broker) == ([b"forged", b"waits"] if marked else [b"forged"])

    run_virtually(scenario)


def test_the_brokers_own_producer_ids_are_refused() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            honest = build([NewRecord(None, b"forged", (), 0)])
            header = msgspec.structs.replace(read_header(honest), producer_id=SCHEDULE_PRODUCER_ID)
            batch = assemble(header, honest[HEADER_BYTES:])
            with pytest.raises(InvalidBatch):
                await broker.publish.batch(PublishBatch(TopicPartition("t", 0), batch))
            assert await values(broker) == []

    run_virtually(scenario)


def test_a_firing_of_an_older_version_can_be_read() -> None:
    old = msgspec.msgpack.encode(["id", 3, 17, [[4, 0]]])
    key, _, _ = encode_record(Firing("id", 3, 17, [(4, 0)]), 9)
    assert decode_record(key, old, ()) == Firing("id", 3, 17, [(4, 0)], False)
