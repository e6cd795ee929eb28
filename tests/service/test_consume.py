"""Members that poll, in virtual time: places, commits, waiting, and what happens when partitions change hands."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.errors import InternalTopic, UnknownTopic
from goqueue.broker import Broker
from goqueue.core.groups.errors import IllegalGeneration, UnknownMember
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.drive.coordinators import GROUPS_TOPIC
from goqueue.service.consume import Poll
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on
from tests.service.members import Member, committed, put, story


def test_polls_go_on_where_the_last_one_ended() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b", "c")
        member = await Member(broker, "m").join()
        assert await member.poll(limit=2) == ["a", "b"]
        assert await member.poll() == ["c"]
        assert await member.poll() == []

    story(scenario)


def test_what_was_handed_out_is_committed_by_a_later_poll_and_not_before_five_seconds() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b")
        member = await Member(broker, "m").join()
        await member.poll(limit=1)
        await member.poll(limit=1)
        assert committed(broker) is None
        await asyncio.sleep(5)
        await put(broker, "c")
        assert await member.poll() == ["c"]
        assert committed(broker) == 2, "what this poll hands out is not yet read"

    story(scenario)


def test_a_poll_that_waits_commits_what_earlier_ones_handed_out() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a")
        member = await Member(broker, "m").join()
        await member.poll()
        await member.poll(wait_ms=10_000)
        assert committed(broker) == 1

    story(scenario)


def test_leaving_commits_unless_the_member_commits_itself() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b")
        mine = await Member(broker, "m", auto_commit=False).join()
        assert await mine.poll() == ["a", "b"]
        await asyncio.sleep(10)
        await mine.poll()
        await mine.leave()
        assert committed(broker) is None
        theirs = await Member(broker, "n").join()
        assert await theirs.poll(limit=1) == ["a"]
        await theirs.leave()
        assert committed(broker) == 1
        assert await (await Member(broker, "o").join()).poll() == ["b"]

    story(scenario)


def test_a_member_that_joins_again_begins_where_it_committed() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b")
        member = await Member(broker, "m").join()
        assert await member.poll() == ["a", "b"]
        generation = member.generation
        await member.join()
        assert (member.generation, member.partitions) == (generation, [0])
        assert await member.poll() == ["a", "b"], "an answer that got lost is handed out again"

    story(scenario)


def test_latest_begins_at_the_end_of_when_the_partition_was_assigned() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "old")
        member = await Member(broker, "m", begin="latest").join()
        await put(broker, "new")
        assert await member.poll() == ["new"]
        await member.leave()
        await put(broker, "while away")
        assert await (await Member(broker, "n", begin="latest").join()).poll() == ["while away"]

    story(scenario)


def test_a_latest_place_that_read_nothing_is_kept_for_the_next_owner() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "old")
        await (await Member(broker, "m", begin="latest").join()).leave()
        await put(broker, "between")
        assert await (await Member(broker, "n", begin="latest").join()).poll() == ["between"]

    story(scenario)


def test_retention_that_passed_the_place_is_no_dead_end() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a", "b", "c")
        request = CommitRequest("g", "", -1, None, [OffsetCommit("t", 0, 99)])
        await broker.consuming.commit(request)
        assert await (await Member(broker, "m").join()).poll() == ["a", "b", "c"]

    story(scenario)


def test_data_wakes_a_poll_at_once() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        member = await Member(broker, "m").join()
        waiting = asyncio.create_task(member.poll(wait_ms=30_000))
        await asyncio.sleep(7.5)
        await put(broker, "hello", partition=1)
        assert await waiting == ["hello"] and loop.time() == pytest.approx(7.5, abs=0.01)

    story(scenario, partitions=2)


def test_a_poll_that_waits_keeps_its_member_in() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        member = Member(broker, "m")
        member.session_ms = 6_000
        await member.join()
        assert await member.poll(wait_ms=29_000) == []
        assert loop.time() == pytest.approx(29, abs=0.01)
        await asyncio.sleep(7)
        with pytest.raises(UnknownMember):
            await member.poll()

    story(scenario)


def test_a_newcomer_wakes_a_poll_and_the_node_stopping_does_too() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        first = await Member(broker, "m1").join()
        waiting = asyncio.create_task(first.polled(wait_ms=30_000))
        await asyncio.sleep(1.25)
        second = await Member(broker, "m2").join()
        assert (await waiting).rebalance and loop.time() == pytest.approx(1.25, abs=0.01)
        await first.beat()
        await second.beat()
        waits = [asyncio.create_task(one.polled(wait_ms=30_000)) for one in (first, second)]
        await asyncio.sleep(0.25)
        broker.stop_waiting()
        assert [one.messages for one in await asyncio.gather(*waits)] == [[], []]
        assert loop.time() == pytest.approx(1.5, abs=0.01)

    story(scenario, partitions=3)


def test_a_new_partition_wakes_a_poll() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        member = await Member(broker, "m").join()
        waiting = asyncio.create_task(member.polled(wait_ms=30_000))
        await asyncio.sleep(1)
        await broker.topics.alter("t", {}, 2)
        assert (await waiting).rebalance and loop.time() == pytest.approx(1, abs=0.01)
        await put(broker, "x", partition=1)
        assert await member.poll() == ["x"]

    story(scenario)


def test_what_a_poll_gained_is_told_by_the_next_heartbeat() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        first = await Member(broker, "m1").join()
        second = await Member(broker, "m2").join()
        await first.beat()
        assert (await second.polled()).rebalance
        assert not (await second.polled()).rebalance
        assert await second.beat() == [("t", [2])]
        assert await second.beat() == []

    story(scenario, partitions=3)


def test_a_partition_that_changes_hands_is_committed_and_read_on() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        for partition in range(3):
            await put(broker, f"{partition}-a", partition=partition)
        first = await Member(broker, "m1").join()
        assert sorted(await first.poll()) == ["0-a", "1-a", "2-a"]
        second = await Member(broker, "m2").join()
        assert (await first.polled()).rebalance
        await put(broker, "2-b", partition=2)
        assert await first.poll() == [], "what is to be given back is not read any more"
        await first.beat()
        assert committed(broker, 2) == 1
        assert await second.poll() == [], "the poll that gains only says so"
        assert await second.poll() == ["2-b"]

    story(scenario, partitions=3)


def test_nobody_stops_reading_what_it_keeps() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        first = await Member(broker, "m1").join()
        await Member(broker, "m2").join()
        await put(broker, "kept")
        polled = await first.polled(wait_ms=30_000)
        assert polled.rebalance and [one.stored.value for one in polled.messages] == [b"kept"]
        assert loop.time() == 0

    story(scenario, partitions=3)


def test_a_member_that_falls_silent_is_replaced_from_its_last_commit() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a")
        silent = Member(broker, "m1")
        silent.session_ms = 10_000
        await silent.join()
        assert await silent.poll() == ["a"]
        second = await Member(broker, "m2").join()
        assert (await second.polled(wait_ms=30_000)).rebalance
        assert loop.time() == pytest.approx(10, abs=3.1), "seen by the next heartbeat of the poll"
        assert await second.poll() == ["a"]
        with pytest.raises(UnknownMember):
            await silent.poll()

    story(scenario)


def test_a_second_poll_ends_the_first_and_they_share_nothing() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        member = await Member(broker, "m").join()
        first = asyncio.create_task(member.poll(wait_ms=30_000))
        await asyncio.sleep(1)
        second = asyncio.create_task(member.poll(wait_ms=30_000))
        await asyncio.sleep(1)
        assert first.done() and first.result() == []
        await put(broker, "a")
        assert await second == ["a"]

    story(scenario)


def test_a_poll_that_is_broken_off_moves_nothing() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await put(broker, "a")
        member = await Member(broker, "m").join()
        reading = asyncio.create_task(member.poll())
        await asyncio.sleep(0)
        reading.cancel()
        assert isinstance((await asyncio.gather(reading, return_exceptions=True))[0], asyncio.CancelledError)
        polled = await member.polled()
        assert [(one.stored.value, one.failures) for one in polled.messages] == [(b"a", 0)]

    story(scenario, fsync="always")


def test_a_limit_is_shared_by_topics_and_none_starves() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        await broker.topics.create("u", 1, {})
        await put(broker, *"abcdefgh")
        await put(broker, "x", topic="u")
        member = await Member(broker, "m", ("t", "u")).join()
        got = await member.poll(limit=2) + await member.poll(limit=2)
        assert len(got) == 4 and "x" in got
        assert sorted(got + await member.poll()) == sorted("abcdefghx")

    story(scenario)


def test_a_stale_generation_reads_and_commits_nothing() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        member = await Member(broker, "m").join()
        with pytest.raises(IllegalGeneration):
            await broker.consuming.poll(Poll("g", "m", member.generation + 1, 10, 0))
        with pytest.raises(IllegalGeneration):
            await broker.consuming.commit(
                CommitRequest("g", "m", member.generation + 1, None, [OffsetCommit("t", 0, 0)])
            )
        with pytest.raises(UnknownMember):
            await broker.consuming.poll(Poll("g", "nobody", 1, 10, 0))

    story(scenario)


def test_after_a_restart_a_member_joins_again_and_keeps_its_partitions() -> None:
    async def run(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            await put(broker, "a", "b")
            member = await Member(broker, "m").join()
            assert await member.poll(limit=1) == ["a"]
            generation = member.generation
        async with broker_on(disk, loop) as broker:
            member.broker = broker
            with pytest.raises(UnknownMember, match="join again"):
                await member.poll()
            await member.join()
            assert (member.generation, member.partitions) == (generation, [0])
            assert await member.poll() == ["a", "b"]

    run_virtually(run)


def test_readers_of_members_that_are_gone_are_forgotten() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        for number in range(300):
            await Member(broker, f"m{number}").join()
            await asyncio.sleep(31)
        assert len(broker.consuming._readers) <= 64

    story(scenario)


def test_only_users_topics_that_exist_can_be_read() -> None:
    async def scenario(broker: Broker, loop: VirtualLoop) -> None:
        with pytest.raises(UnknownTopic):
            await Member(broker, "m", ("t", "nope")).join()
        with pytest.raises(InternalTopic):
            await Member(broker, "m", (GROUPS_TOPIC,)).join()
        assert broker.groups.list() == []

    story(scenario)
