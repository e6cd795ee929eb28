"""Stories of the queue in virtual time: one for each way in which a message could be lost, doubled or forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import InvalidReceipt, StaleReceipt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Delivered, Take
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.drive import checkpoint_writer, delivery_runner
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch_all, settings
from tests.service.members import Member, committed, story

Scenario = Callable[[Broker, VirtualLoop], Awaitable[None]]


async def put(broker: Broker, *values: str, lane: int = 2, key: str | None = None, ttl_ms: int | None = None) -> None:
    """In one batch."""
    headers = () if lane == 2 else (("goqueue-priority", str(lane).encode()),)
    encoded = None if key is None else key.encode()
    messages = [InputMessage(encoded, value.encode(), headers, 0, ttl_ms=ttl_ms) for value in values]
    await broker.publish.messages(PublishMessages("t", messages))


async def take(broker: Broker, limit: int = 100, wait_ms: int = 0, group: str = "g", **more: object) -> list[Delivered]:
    asked = Take(group, [TopicPartition("t", 0)], "me", limit, wait_ms_max=wait_ms, **more)  # type: ignore[arg-type]
    return await broker.leasing.take(asked)


def values(found: list[Delivered]) -> list[str]:
    return [(one.stored.value or b"").decode() for one in found]


async def ack(broker: Broker, found: list[Delivered]) -> None:
    assert await broker.leasing.ack([one.receipt for one in found]) == [None] * len(found)


def lives(
    *scenarios: Scenario, chosen: Settings | None = None, config: dict[str, str] | None = None, pause_s: float = 0
) -> None:
    """One broker after the other on one disk."""

    async def run(loop: VirtualLoop) -> None:
        disk = SimDisk()
        for number, scenario in enumerate(scenarios):
            async with broker_on(disk, loop, chosen or settings()) as broker:
                if number == 0:
                    await broker.topics.create("t", 1, config or {})
                await scenario(broker, loop)
            await asyncio.sleep(pause_s)

    run_virtually(run)


# --- messages that are too old -----------------------------------------------------------------------------


@pytest.mark.parametrize("buries", ["true", "false"])
def test_old_messages_between_others_take_none_of_them_along(buries: str) -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a")
        await put(broker, "old", ttl_ms=10)
        await put(broker, "b")
        await put(broker, "older", "oldest", ttl_ms=10)
        await put(broker, "c")
        await asyncio.sleep(1)
        found = await take(broker)
        assert values(found) == ["a", "b", "c"]
        await ack(broker, found)
        await asyncio.sleep(1)
        assert committed(broker) == 6
        if buries == "true":
            dead = await fetch_all(broker, "t.dlq", 0)
            assert sorted(one.value or b"" for one in dead) == [b"old", b"older", b"oldest"]

    lives(scenario, config={"queue.expired.dead.letter": buries})


def test_many_old_messages_do_not_hide_a_new_one_from_a_small_poll() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, *(f"old{n}" for n in range(2_000)), ttl_ms=10)
        await put(broker, "new")
        await asyncio.sleep(1)
        before = loop.time()
        assert values(await take(broker, 1, 20_000)) == ["new"]
        assert loop.time() - before < 1

    lives(scenario)


def test_a_message_that_waited_for_its_retry_too_long_is_passed_over() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", ttl_ms=5_000)
        await put(broker, "b")
        first, second = await take(broker)
        assert await broker.leasing.nack([first.receipt], 10_000) == [None]
        await ack(broker, [second])
        assert values(await take(broker, wait_ms=20_000)) == []
        assert committed(broker) == 2

    lives(scenario)


# --- lanes -------------------------------------------------------------------------------------------------


def test_who_waits_is_woken_for_what_another_leaves_in_any_lane() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        waiting = [asyncio.ensure_future(take(broker, 2, 20_000)) for _ in range(2)]
        await asyncio.sleep(1)
        headers = (("goqueue-priority", b"0"),)
        batch = [InputMessage(None, b"n", (), 0), *(InputMessage(None, b"c", headers, 0) for _ in range(3))]
        await broker.publish.messages(PublishMessages("t", batch))
        found = await asyncio.gather(*waiting)
        assert sorted(values(found[0]) + values(found[1])) == ["c", "c", "c", "n"]
        assert loop.time() < 2, "nobody waited for more"

    for lane in range(5):

        async def turned(broker: Broker, loop: VirtualLoop, lane: int = lane) -> None:
            """Begins with another lane's turn."""
            for number in range(lane):
                await put(broker, *(["x"] * 50), lane=number)
            while found := await take(broker):
                await ack(broker, found)
            loop_began = loop.time()
            assert loop_began < 1
            await scenario(broker, loop)

        lives(turned)


def test_two_groups_that_poll_in_turn_read_all_their_partitions() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        for partition in (0, 1):
            messages = [InputMessage(None, str(partition).encode(), partition=partition) for _ in range(200)]
            await broker.publish.messages(PublishMessages("t", messages))
        seen: dict[str, set[str]] = {"one": set(), "two": set()}
        for _ in range(10):
            for group in seen:
                asked = Take(group, [TopicPartition("t", 0), TopicPartition("t", 1)], "me", 10)
                seen[group].update(values(await broker.leasing.take(asked)))
        assert seen == {"one": {"0", "1"}, "two": {"0", "1"}}

    story(scenario, partitions=2)


def test_a_thousand_consumers_on_three_partitions_and_nobody_starves() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        served: Counter[int] = Counter()
        places = [TopicPartition("t", number) for number in range(3)]

        async def consume(number: int) -> None:
            while loop.time() < 60:
                found = await broker.leasing.take(Take("g", places, f"c{number}", 1, wait_ms_max=20_000))
                served[number] += len(found)
                await asyncio.sleep(0.001)  # nobody can do its work in no time
                await ack(broker, found)

        consumers = [asyncio.ensure_future(consume(number)) for number in range(1_000)]
        for n in range(300):
            messages = [InputMessage(None, b"x", partition=(n + k) % 3) for k in range(10)]
            await broker.publish.messages(PublishMessages("t", messages))
            await asyncio.sleep(0.1)
        assert served.total() == 3_000, "all are handed out at once"
        assert len(served) == 1_000 and min(served.values()) >= 1, "somebody starves"
        assert max(served.values()) <= 6, "somebody gets more than twice its share"
        await asyncio.gather(*consumers)

    story(scenario, partitions=3)


# --- keys --------------------------------------------------------------------------------------------------


def test_messages_behind_a_key_in_two_lanes_neither_hang_a_poll_nor_get_lost() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        for lane in (2, 0, 4):
            await put(broker, f"a{lane}", f"b{lane}", lane=lane, key="k")
        await put(broker, "free", key="other")
        (first,) = await take(broker, 1)
        assert values([first]) in (["a0"], ["a2"])
        assert values(await take(broker)) == ["free"]
        assert await take(broker, wait_ms=1_000) == []
        await broker.leasing.extend([first.receipt], 0)
        got: list[str] = []
        while found := await take(broker, 1):
            got += values(found)
            await ack(broker, found)
        assert sorted(got) == ["a0", "a2", "a4", "b0", "b2", "b4"]

    lives(scenario, config={"queue.order": "key"})


def test_an_ack_wakes_those_who_wait_for_the_key() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b", key="k")
        first = await take(broker, 1)
        waiting = asyncio.ensure_future(take(broker, 1, 20_000))
        await asyncio.sleep(3)
        await ack(broker, first)
        assert values(await waiting) == ["b"] and loop.time() < 4

    lives(scenario, config={"queue.order": "key"})


# --- restarts ----------------------------------------------------------------------------------------------


def test_a_restart_keeps_leases_attempts_and_the_position() -> None:
    kept: list[Delivered] = []

    async def before(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b", "c")
        kept.extend(await take(broker))
        await ack(broker, kept[:2])
        assert committed(broker) == 2

    async def after(broker: Broker, loop: VirtualLoop) -> None:
        assert await take(broker) == []
        assert committed(broker) == 2
        assert await broker.leasing.nack([kept[2].receipt], 0) == [None]
        await asyncio.sleep(0.1)
        assert committed(broker) == 2, "a position never goes back by itself"
        (again,) = await take(broker)
        assert (again.attempt, again.failures) == (2, 1)
        (stale,) = await broker.leasing.ack([kept[2].receipt])
        assert isinstance(stale, StaleReceipt)
        kept[:] = [again]

    async def last(broker: Broker, loop: VirtualLoop) -> None:
        await ack(broker, kept)
        assert committed(broker) == 2, "what else there is is not known yet"
        assert await take(broker) == []
        await asyncio.sleep(0)
        assert committed(broker) == 3

    lives(before, after, last)


def test_a_position_does_not_pass_a_lane_that_another_group_never_looked_at() -> None:
    kept: list[Delivered] = []

    async def before(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "n0")
        kept.extend(await take(broker))
        await put(broker, "c1", lane=0)
        await put(broker, "n2")
        for one in await take(broker):  # both; the urgent one is given back
            if values([one]) == ["n2"]:
                kept.append(one)
            else:
                await broker.leasing.extend([one.receipt], 0)
        await broker.groups.commit_all(CommitRequest("other", "", -1, None, [OffsetCommit("t", 0, 3)]))

    async def after(broker: Broker, loop: VirtualLoop) -> None:
        assert await take(broker, group="other") == []
        await ack(broker, kept)
        await asyncio.sleep(0)
        assert (committed(broker) or 0) <= 1
        found = await take(broker)
        assert values(found) == ["c1"]
        await ack(broker, found)
        assert committed(broker) == 3

    lives(before, after)


def test_a_lane_that_nobody_looked_at_before_a_restart_is_looked_at_after_it() -> None:
    async def before(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, *(["c"] * 60), lane=0)
        assert len(await take(broker, 50)) == 50
        await put(broker, "high", lane=1)
        await put(broker, "normal")
        await put(broker, "low", lane=3)
        found = await take(broker, 2)
        assert values(found) == ["high", "normal"]
        await ack(broker, found)

    async def after(broker: Broker, loop: VirtualLoop) -> None:
        await asyncio.sleep(60)
        got: list[str] = []
        while found := await take(broker):
            got += values(found)
            await ack(broker, found)
        assert sorted(got) == ["c"] * 60 + ["low"]
        assert committed(broker) == 63

    lives(before, after)


@pytest.mark.parametrize("polls", [False, True])
def test_a_group_can_be_moved_back_after_a_restart(polls: bool) -> None:
    async def before(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b", "c")
        await ack(broker, await take(broker))
        assert committed(broker) == 3

    async def after(broker: Broker, loop: VirtualLoop) -> None:
        if polls:
            assert await take(broker) == []
        await broker.groups.commit_all(CommitRequest("g", "", -1, None, [OffsetCommit("t", 0, 1)]))
        assert values(await take(broker)) == ["b", "c"]

    lives(before, after)


def test_a_poll_that_is_broken_off_gives_back_what_it_holds_and_nothing_else() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b")
        wait_durable = broker.deliveries.wait_durable

        async def never(places: Iterable[TopicPartition] | None = None) -> None:
            await asyncio.sleep(1_000)

        broker.deliveries.wait_durable = never  # type: ignore[method-assign]
        polling = asyncio.ensure_future(take(broker, lease_ms=5_000))
        await asyncio.sleep(10)  # the leases are over before the poll is
        broker.deliveries.wait_durable = wait_durable  # type: ignore[method-assign]
        others = await take(broker, 1)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        assert values(await take(broker)) == ["b"], "the first is with somebody else"
        await ack(broker, others)
        polling = asyncio.ensure_future(take(broker, wait_ms=60_000))
        await asyncio.sleep(1)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await asyncio.sleep(40)
        (again,) = await take(broker)
        assert values([again]) == ["b"]

    lives(scenario)


def test_a_checkpoint_among_many_views_and_traffic_can_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_runner, "CHECKPOINT_BYTES", 12_000)
    monkeypatch.setattr(checkpoint_writer, "_BATCH", 3)
    groups = [f"g{n}" for n in range(20)]
    left: dict[str, str] = {}

    async def before(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, *(f"m{n}" for n in range(50)))

        async def consume(group: str) -> None:
            for _ in range(49):
                found = await take(broker, 1, group=group)
                await asyncio.sleep(0)
                await ack(broker, found)
                await asyncio.sleep(0)

        await asyncio.gather(*(consume(group) for group in groups))
        partition = await broker.open_internal_partition(
            delivery_runner.DELIVERIES_TOPIC, broker.node.shard_map.of_partition(TopicPartition("t", 0))
        )
        assert partition.start_offset > 0, "there was a checkpoint"
        for group in groups:
            (left[group],) = values(await take(broker, group=group, lease_ms=1))

    async def after(broker: Broker, loop: VirtualLoop) -> None:
        for group in groups:
            assert values(await take(broker, group=group, wait_ms=1_000)) == [left[group]]

    lives(before, after, pause_s=1)


def test_a_node_that_lost_the_end_of_a_log_hands_out_what_is_published_there_again() -> None:
    """Without syncs a power cut may take messages that were handed out; their offsets are given again."""

    async def run(loop: VirtualLoop) -> None:
        chosen = settings(fsync="interval", fsync_interval_ms=1_000_000)
        disk = SimDisk()
        async with broker_on(disk, loop, chosen) as broker:
            await broker.topics.create("t", 1, {})
            await put(broker, "a")
        async with broker_on(disk, loop, chosen) as broker:
            size = disk.size("logs/t/0/00000000000000000000.log")
            await put(broker, "lost", "lost too", "lost as well")
            first, second, third, _ = await take(broker)
            await ack(broker, [second])
            assert await broker.leasing.nack([first.receipt], 0) == [None]
            assert await broker.leasing.reject([third.receipt]) == [None]
            after = disk.crash("kept")
            after.open("logs/t/0/00000000000000000000.log").truncate(size)
        async with broker_on(after, loop, chosen) as broker:
            await put(broker, "b", "c", "d", "e")
            got: list[str] = []
            await asyncio.sleep(100)
            while found := await take(broker):
                got += values(found)
                await ack(broker, found)
            assert sorted(got) == ["a", "b", "c", "d", "e"]

    run_virtually(run)


# --- positions ---------------------------------------------------------------------------------------------


def test_a_topic_that_is_made_again_begins_again() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b")
        await ack(broker, await take(broker))
        assert committed(broker) == 2
        await broker.topics.delete("t")
        await broker.topics.create("t", 1, {})
        await put(broker, "c", "d")
        found = await take(broker)
        assert values(found) == ["c", "d"]
        await ack(broker, found)
        assert committed(broker) == 2
        await put(broker, "e", "f")
        await broker.groups.commit_all(CommitRequest("g", "", -1, None, [OffsetCommit("t", 0, 3)]))
        assert values(await take(broker)) == ["f"]

    lives(scenario)


def test_a_commit_that_was_answered_survives_a_power_cut() -> None:
    async def run(loop: VirtualLoop) -> None:
        disk, chosen = SimDisk(), settings(fsync="always")
        async with broker_on(disk, loop, chosen) as broker:
            await broker.topics.create("t", 1, {})
            await put(broker, "a", "b", "c")
            await take(broker, lease_ms=10)
            await broker.groups.commit_all(CommitRequest("g", "", -1, None, [OffsetCommit("t", 0, 2)]))
            after = disk.crash("dropped")
        async with broker_on(after, loop, chosen) as broker:
            await asyncio.sleep(1)
            assert committed(broker) == 2
            assert values(await take(broker)) == ["c"]

    run_virtually(run)


def test_a_reset_while_a_poll_reads_the_log_loses_nothing() -> None:
    async def run(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            await put(broker, "a", "b", "c")
            await ack(broker, await take(broker))
            await put(broker, "d")
            disk.is_cold = True
            broker.feeds.forget("t")
            polling = asyncio.ensure_future(take(broker))
            for _ in range(3):
                await asyncio.sleep(0)
            commit = CommitRequest("g", "", -1, None, [OffsetCommit("t", 0, 0)])
            await broker.groups.commit_all(commit)
            got = values(await polling)
            while found := values(await take(broker)):
                got += found
            assert set(got) >= {"a", "b", "c", "d"}

    run_virtually(run)


# --- members -----------------------------------------------------------------------------------------------


def test_what_a_poll_was_handed_of_a_partition_it_loses_meanwhile_is_not_acked_for_it() -> None:
    """A member that polls and beats at once: the beat takes the partition while the poll makes its leases safe."""

    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        first = await Member(broker, "m1").join()
        second = Member(broker, "m2")
        messages = [InputMessage(None, f"{n % 2}".encode(), partition=n % 2) for n in range(10)]
        await broker.publish.messages(PublishMessages("t", messages))
        wait_durable, came = broker.deliveries.wait_durable, False

        async def slow_settle(places: Iterable[TopicPartition] | None = None) -> None:
            nonlocal came
            if not came and broker.leasing.in_flight("g", "m1"):
                came = True
                await second.join()
                await broker.consuming.heartbeat("g", "m1", first.generation)
            await wait_durable(places)

        broker.deliveries.wait_durable = slow_settle  # type: ignore[method-assign]
        got = await first.poll()
        assert came and len(got) < 10, "the poll lost a partition"
        for member in (first, second, first, second):
            await member.beat()
        for _ in range(3):
            got += await first.poll() + await second.poll()
        assert sorted(got) == ["0"] * 5 + ["1"] * 5

    story(scenario, partitions=2)


# --- receipts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "x", "t:0:0:1", "t:0:0:x:n", "t:-1:0:1:n", ":0:0:1:n", "t:0:0:1:" + "n" * 500, "t:0: 0:1:n"]
)
def test_what_never_was_a_receipt_is_told_so(text: str) -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        for answer in (broker.leasing.ack, broker.leasing.nack, broker.leasing.reject):
            assert isinstance((await answer([text]))[0], InvalidReceipt)
        assert isinstance((await broker.leasing.extend([text], 10))[0], InvalidReceipt)

    lives(scenario)


def test_a_receipt_acts_in_its_own_group_alone_and_once() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a")
        (one,) = await take(broker, group="one")
        (two,) = await take(broker, group="two")
        assert one.receipt != two.receipt
        topic, partition, offset, attempt, nonce = one.receipt.split(":")
        forged = [
            f"{topic}:{partition}:{offset}:2:{nonce}",
            f"{topic}:{partition}:1:{attempt}:{nonce}",
            f"{topic}:1:{offset}:{attempt}:{nonce}",
            f"u:{partition}:{offset}:{attempt}:{nonce}",
            f"{topic}:{partition}:{offset}:{attempt}:0000",
        ]
        outcomes = await broker.leasing.ack([*forged, one.receipt, one.receipt])
        assert [type(outcome) for outcome in outcomes[:5]] == [StaleReceipt] * 5
        assert outcomes[5] is None and isinstance(outcomes[6], StaleReceipt)
        assert broker.leasing.counts("two", "t").in_flight == 1
        await ack(broker, [two])

    lives(scenario)
