"""Fetching through the verb: long polls woken by data, limits, isolation from what is not safe."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import Acks, Browse, Fetch, FetchFrom, InputMessage, PublishMessages
from goqueue.base.errors import OffsetOutOfRange, UnknownEpoch, UnknownPartition, UnknownTopic, UnknownTopicId
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import FETCH_WAIT_MS_MAX
from goqueue.drive.partition import Partition
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch, publish, settings


def test_a_long_poll_is_woken_by_data_at_once() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            began = loop.time()
            waiting = asyncio.create_task(fetch(broker, "t", 0, wait_ms=30_000))
            await asyncio.sleep(7)
            await publish(broker, "t", "hello")
            (record,) = await waiting
            assert record.value == b"hello" and loop.time() - began == 7

    run_virtually(scenario)


def test_a_long_poll_ends_when_its_time_is_over_or_the_node_stops() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            assert await fetch(broker, "t", 0, wait_ms=5_000) == []
            assert loop.time() == pytest.approx(5, abs=0.01)
            waiting = asyncio.create_task(fetch(broker, "t", 0, wait_ms=30_000))
            await asyncio.sleep(1)
            broker.stop_waiting()
            assert await waiting == []
            assert loop.time() == pytest.approx(6, abs=0.01)

    run_virtually(scenario)


def test_a_deleted_topic_wakes_its_readers_with_an_error() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            waiting = asyncio.create_task(fetch(broker, "t", 0, wait_ms=30_000))
            await asyncio.sleep(1)
            await broker.topics.delete("t")
            with pytest.raises(UnknownTopic):
                await waiting

    run_virtually(scenario)


def test_nobody_reads_what_a_power_cut_could_take_back() -> None:
    """Under fsync=always the high watermark is the end of what is synced."""

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(fsync="always")) as broker:
            await broker.topics.create("t", 1, {})
            unsafe = PublishMessages("t", [InputMessage(None, b"v")], Acks.NONE)
            await broker.publish.messages(unsafe)
            assert await fetch(broker, "t", 0) == []
            await publish(broker, "t", "w")
            assert [one.value for one in await fetch(broker, "t", 0)] == [b"v", b"w"]

    run_virtually(scenario)


def test_a_reader_of_another_leader_or_an_unknown_id_is_refused_at_once() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            epoch = broker.topics.require("t").partitions[0].state.leader_epoch
            good = FetchFrom(TopicPartition("t", 0), 0, 1000, epoch)
            refusals = [
                (FetchFrom(TopicPartition("t", 0), 0, 1000, epoch + 1), UnknownEpoch),
                (FetchFrom(TopicPartition("", 0), 0, 1000), UnknownTopicId),
            ]
            for refused, word in refusals:
                began = loop.time()
                first, second = await broker.fetching.fetch(Fetch([good, refused], 1000, wait_ms_max=30_000))
                assert first.error is None and isinstance(second.error, word)
                assert loop.time() == began

    run_virtually(scenario)


def test_no_wait_is_longer_than_the_longest_long_poll() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            assert await fetch(broker, "t", 0, wait_ms=100 * FETCH_WAIT_MS_MAX) == []
            assert loop.time() == pytest.approx(FETCH_WAIT_MS_MAX / 1000, abs=0.01)

    run_virtually(scenario)


def test_errors_are_answers_for_each_partition() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 2, {})
            await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"v", partition=0)]))
            places = [("t", 0, 0), ("t", 0, 99), ("t", 7, 0), ("nope", 0, 0), ("t", 1, 0)]
            parts = [FetchFrom(TopicPartition(topic, number), offset, 1000) for topic, number, offset in places]
            good, beyond, partition, topic, empty = await broker.fetching.fetch(Fetch(parts, 10_000, 1, 10_000))
            assert good.batches and good.error is None and good.high_watermark == 1
            assert isinstance(beyond.error, OffsetOutOfRange) and beyond.error.detail["end_offset"] == 1
            assert isinstance(partition.error, UnknownPartition)
            assert isinstance(topic.error, UnknownTopic)
            assert empty.batches == b"" and empty.error is None
            assert loop.time() == 0, "an error ends the wait"

    run_virtually(scenario)


def test_the_total_bounds_a_fetch_of_many_partitions() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 10, {})
            messages = [InputMessage(None, b"x" * 1000, partition=number) for number in range(10)]
            await broker.publish.messages(PublishMessages("t", messages))
            parts = [FetchFrom(TopicPartition("t", number), 0, 5000) for number in range(10)]
            answers = await broker.fetching.fetch(Fetch(parts, 2500))
            assert sum(1 for answer in answers if answer.batches) == 2
            assert sum(len(answer.batches) for answer in answers) <= 2500
            assert broker.fetching.fetch_now(Fetch(parts, 2500)) == answers

    run_virtually(scenario)


@pytest.mark.parametrize("bytes_max", [0, 1, 900, 1900])
def test_only_the_first_batch_of_all_may_be_too_large(bytes_max: int) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 4, {})
            messages = [InputMessage(None, b"x" * 1000, partition=number) for number in (1, 2, 3)]
            await broker.publish.messages(PublishMessages("t", messages))
            parts = [FetchFrom(TopicPartition("t", number), 0, 100) for number in range(4)]
            for command in (Fetch(parts, bytes_max), Fetch(parts[::-1], bytes_max)):
                answers = await broker.fetching.fetch(command)
                given = [answer.at.partition for answer in answers if answer.batches]
                assert given == [next(part.at.partition for part in command.parts if part.at.partition)]
                assert broker.fetching.fetch_now(command) == answers
            each = await broker.fetching.fetch(Fetch(parts, 5_000, one_each=True))
            assert [answer.at.partition for answer in each if answer.batches] == [1, 2, 3]

    run_virtually(scenario)


def test_browsing_merges_partitions_by_time_and_goes_on_where_it_stopped() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 3, {})
            sent = [f"{number:03d}" for number in range(50)]
            for number, value in enumerate(sent):
                message = InputMessage(None, value.encode(), partition=number * 7 % 3)
                await broker.publish.messages(PublishMessages("t", [message]))
                await asyncio.sleep(0.01)
            offsets = await broker.browsing.offsets_from("t", "earliest")
            got: list[str] = []
            while True:
                page = await broker.browsing.read(Browse("t", offsets, 7))
                if not page.messages:
                    break
                got += [(one.value or b"").decode() for one in page.messages]
                offsets = page.next_offsets
            assert got == sent
            moment = broker.clock.now_ms() - 200
            page = await broker.browsing.read(Browse("t", await broker.browsing.offsets_from("t", moment), 100))
            assert [(one.value or b"").decode() for one in page.messages] == sent[30:]

    run_virtually(scenario)


def test_what_comes_while_a_time_is_looked_up_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("t", 1, {})
            look = Partition.offset_at_time

            async def slowly(self: Partition, timestamp: int) -> tuple[int, int] | None:
                found = await look(self, timestamp)
                await publish(broker, "t", "meanwhile")
                return found

            monkeypatch.setattr(Partition, "offset_at_time", slowly)
            offsets = await broker.browsing.offsets_from("t", broker.clock.now_ms())
            (one,) = (await broker.browsing.read(Browse("t", offsets, 10))).messages
            assert one.value == b"meanwhile"

    run_virtually(scenario)


def test_a_cold_read_leaves_the_loop_free() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {"segment.bytes": 1024})
            for number in range(30):
                await publish(broker, "t", f"{number}" + "x" * 100)
            await asyncio.sleep(1)
            disk.is_cold = True
            assert (await fetch(broker, "t", 0))[0].offset == 0

    run_virtually(scenario)
