"""Publishing through the verb, on a simulated disk in virtual time."""

from __future__ import annotations

import asyncio
import errno

import pytest

from goqueue.base.commands import Acks, InputMessage, PublishBatch, PublishMessages, StoredAt
from goqueue.base.errors import (
    CorruptBatch,
    DiskFull,
    InvalidBatch,
    KeyRequired,
    MessageTooLarge,
    NotEnoughReplicas,
    StorageFailed,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.base.ids import TopicPartition
from goqueue.base.settings import Settings, TopicSettings
from goqueue.core.partitioner import murmur2
from goqueue.format import records
from goqueue.format.batch import read_header
from goqueue.format.records import NewRecord, build
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch, fetch_all, publish, settings

AT = TopicPartition("t", 0)


def batch(*values: bytes, codec: int = 0) -> bytes:
    return build([NewRecord(None, value, (), 1_000) for value in values], codec)


def test_the_produce_path_decodes_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded batches, even compressed ones, go in and come out with every decoder taken away.

    Compressed ones are unfolded, to be searched for delays, unless the topic says that there are none.
    """

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a record was decoded")

    sent = batch(b"one", b"two" * 1000, codec=4)

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            no_delays = {"queue.delay.headers": "false"}
            await broker.topics.create("t", 1, {"message.timestamp.type": "LogAppendTime", **no_delays})
            await broker.topics.create("plain", 1, no_delays)
            for name in ("decode", "raw_records", "payload", "build", "decompress", "DefaultRecordBatch"):
                monkeypatch.setattr(records, name, forbidden)
            await broker.publish.batch(PublishBatch(AT, sent))
            await broker.publish.batch(PublishBatch(TopicPartition("plain", 0), sent))
            (partition,) = (broker.table.get("plain") or pytest.fail()).partitions
            stored = partition.log.read(0, 1 << 20, 2)
            assert stored[17:] == sent[17:], "only the offset and the epoch were stamped"

    run_virtually(scenario)


def test_a_bad_batch_is_refused_and_costs_nothing() -> None:
    good = batch(b"value")
    lying = bytearray(good)
    lying[57:61] = (7).to_bytes(4, "big")
    flipped = bytearray(good)
    flipped[-1] ^= 1

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"max.message.bytes": 2000})
            for bad in (bytes(flipped), bytes(lying), good[:-1], good + b"x", good[:30], b"", good + good):
                with pytest.raises((CorruptBatch, InvalidBatch)):
                    await broker.publish.batch(PublishBatch(AT, bad))
            with pytest.raises(MessageTooLarge):
                await broker.publish.batch(PublishBatch(AT, batch(b"x" * 2000)))
            with pytest.raises(UnknownPartition):
                await broker.publish.batch(PublishBatch(TopicPartition("t", 3), good))
            with pytest.raises(UnknownTopic):
                await broker.publish.batch(PublishBatch(TopicPartition("nope", 0), good))
            assert broker.topics.describe("t").messages == 0
            assert broker.storage_stats.bytes_appended == 0

    run_virtually(scenario)


def test_every_message_has_its_own_result_in_order() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 3, {"max.message.bytes": 2000})
            messages = [
                InputMessage(b"key", b"a"),
                InputMessage(None, b"b", partition=9),
                InputMessage(None, b"c" * 3000),
                InputMessage(b"key", b"d"),
                InputMessage(None, b"e", partition=0),
            ]
            first, no_partition, too_large, second, explicit = await broker.publish.messages(
                PublishMessages("t", messages)
            )
            home = murmur2(b"key") % 3
            assert isinstance(first, StoredAt) and isinstance(second, StoredAt)
            assert (first.partition, second.partition, second.offset) == (home, home, first.offset + 1)
            assert isinstance(no_partition, UnknownPartition) and no_partition.field == "messages[1].partition"
            assert isinstance(too_large, MessageTooLarge) and too_large.field == "messages[2].value"
            assert isinstance(explicit, StoredAt) and explicit.partition == 0

    run_virtually(scenario)


def test_messages_without_a_key_take_turns_by_publish() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 3, {})
            for _ in range(6):
                await publish(broker, "t", "a", "b")
            counts = [one.messages for one in broker.topics.describe("t").partitions]
            assert counts == [4, 4, 4]

    run_virtually(scenario)


def test_many_large_messages_become_several_batches() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            values = [f"{n}" + "x" * 400_000 for n in range(6)]
            assert await publish(broker, "t", *values) == list(range(6))
            assert broker.storage_stats.batches_appended == 3
            assert [(one.value or b"").decode() for one in await fetch_all(broker, "t", 0)] == values

    run_virtually(scenario)


def test_a_compacted_topic_wants_keys() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"cleanup.policy": "compact"})
            (result,) = await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"v")]))
            assert isinstance(result, KeyRequired) and result.field == "messages[0].key"

    run_virtually(scenario)


def test_acks_all_needs_the_replicas_it_asks_for() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"min.insync.replicas": 2})
            with pytest.raises(NotEnoughReplicas):
                await broker.publish.batch(PublishBatch(AT, batch(b"v"), Acks.ALL))
            await broker.publish.batch(PublishBatch(AT, batch(b"v"), Acks.LEADER))
            assert broker.topics.describe("t").messages == 1

    run_virtually(scenario)


def test_topics_are_made_on_demand_only_if_told_so() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            with pytest.raises(UnknownTopic):
                await publish(broker, "new", "v")
        telling = Settings(topics=TopicSettings(auto_create="all", partitions=2))
        async with broker_on(SimDisk(), loop, telling) as broker:
            await asyncio.gather(publish(broker, "new", "v"), publish(broker, "new", "w"))
            assert broker.topics.describe("new").num_partitions == 2

    run_virtually(scenario)


def test_a_full_disk_refuses_writes_and_serves_reads() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk(capacity_bytes=100_000)
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            stored = 0
            with pytest.raises(DiskFull) as refused:
                while True:
                    await publish(broker, "t", "x" * 1000)
                    stored += 1
                    await asyncio.sleep(1)
            assert "90 %" in refused.value.message
            assert len(await fetch_all(broker, "t", 0)) == stored
            assert not all(check.ok for check in broker.health.checks())
            with pytest.raises(DiskFull):
                await broker.topics.create("another", 1, {})
            disk.capacity_bytes = 200_000
            await asyncio.sleep(2)
            assert await publish(broker, "t", "again") == [stored]

    run_virtually(scenario)


def test_running_out_of_space_in_a_write_leaves_no_trace() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk(capacity_bytes=10_000)
        async with broker_on(disk, loop, settings(disk_used_percent_max=100)) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "first")
            with pytest.raises(DiskFull):
                await publish(broker, "t", "x" * 20_000)
            assert await publish(broker, "t", "second") == [1]
            assert [one.value for one in await fetch_all(broker, "t", 0)] == [b"first", b"second"]

    run_virtually(scenario)


@pytest.mark.parametrize("policy", ["always", "interval"])
def test_a_failed_sync_makes_the_partition_read_only(policy: str) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, settings(fsync=policy)) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "safe")
            await asyncio.sleep(2)
            disk.fails_sync = True
            if policy == "always":
                with pytest.raises(StorageFailed) as failed:
                    await publish(broker, "t", "lost")
                assert str(errno.EIO) in failed.value.message
            else:
                await publish(broker, "t", "lost")
                await asyncio.sleep(2)
            disk.fails_sync = False
            with pytest.raises(StorageFailed):
                await publish(broker, "t", "more")
            assert (await fetch(broker, "t", 0))[0].value == b"safe"
            assert [check.name for check in broker.health.checks() if not check.ok] == ["logs"]

    run_virtually(scenario)


def test_log_append_time_is_the_brokers_clock() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"message.timestamp.type": "LogAppendTime"})
            appended = await broker.publish.batch(PublishBatch(AT, batch(b"v")))
            assert appended.append_time_ms == broker.clock.now_ms()
            (record,) = await fetch(broker, "t", 0)
            assert record.timestamp_ms == appended.append_time_ms

    run_virtually(scenario)


@pytest.mark.parametrize(("name", "codec"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)])
def test_the_broker_compresses_what_it_builds(name: str, codec: int) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {"compression.type": name})
            await publish(broker, "t", *["same" * 50] * 20)
            (partition,) = (broker.table.get("t") or pytest.fail()).partitions
            assert read_header(partition.log.read(0, 1 << 20, 20)).codec == codec
            assert [one.value for one in await fetch(broker, "t", 0)] == [b"same" * 50] * 20

    run_virtually(scenario)
