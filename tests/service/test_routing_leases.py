"""Consuming through any node: leases are given and answered for where the partitions are led."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from goqueue.base.errors import InvalidField, InvalidReceipt, NotLeader, PeerOutOfReach, StaleReceipt
from goqueue.base.leases import Delivered, Take
from goqueue.core.groups.requests import CommitRequest, OffsetCommit, RestJoin
from goqueue.service.consume import Consuming, Poll
from goqueue.service.leasing import Leasing
from goqueue.service.readers import MemberReading
from goqueue.service.reset import Reset
from tests.service.brokers import settings
from tests.service.nodes import SHARD_COUNT, Nodes, nodes_story, send, to


def leasing(nodes: Nodes, node: int) -> Leasing:
    return nodes.brokers[node].routed(nodes.brokers[node].leasing)


def consuming(nodes: Nodes, node: int) -> Consuming:
    return nodes.brokers[node].routed(nodes.brokers[node].consuming)


def taking(nodes: Nodes, limit: int = 100, wait_ms: int = 0) -> Take:
    return Take("q", tuple(nodes.places("t")), "me", limit, wait_ms_max=wait_ms)


def values(found: list[Delivered]) -> list[str]:
    return [(one.stored.value or b"").decode() for one in found]


async def fill(nodes: Nodes, each: int = 2) -> list[str]:
    """So many messages into every partition."""
    sent = [f"{number}-{place}" for number in range(SHARD_COUNT) for place in range(each)]
    await send(nodes.brokers[0], "t", *(to(int(one[0]), one) for one in sent))
    return sent


async def take_all(nodes: Nodes, node: int, limit: int = 100) -> list[Delivered]:
    found: list[Delivered] = []
    while some := await leasing(nodes, node).take(taking(nodes, limit)):
        found += some
    return found


def in_flight(nodes: Nodes) -> int:
    return sum(broker.leasing.in_flight("q", "me") for broker in nodes.brokers)


def test_everything_is_handed_out_once_through_any_node_and_acked_through_another() -> None:
    async def story(nodes: Nodes) -> None:
        sent = await fill(nodes)
        found = await take_all(nodes, 1, limit=3)
        assert sorted(values(found)) == sorted(sent)
        receipts = [one.receipt for one in found]
        assert await leasing(nodes, 2).extend(receipts, 60_000) == [None] * len(receipts)
        assert await leasing(nodes, 0).ack(receipts) == [None] * len(receipts)
        assert in_flight(nodes) == 0
        assert await take_all(nodes, 2) == []
        for number, broker in enumerate(nodes.brokers):
            known = {view.at for runner in broker.delivery_runners for view in runner.views}
            assert known == set(nodes.led_by(number, "t"))

    nodes_story(story)


def test_answers_are_told_in_the_order_of_the_receipts() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        found = await take_all(nodes, 0)
        assert await leasing(nodes, 0).ack([found[2].receipt]) == [None]
        receipts = [found[0].receipt, "nonsense", found[2].receipt, found[1].receipt, "a:b:c", found[3].receipt]
        outcomes = await leasing(nodes, 1).ack(receipts)
        kinds = [None if one is None else type(one) for one in outcomes]
        assert kinds == [None, InvalidReceipt, StaleReceipt, None, InvalidReceipt, None]
        with pytest.raises(InvalidField):
            await leasing(nodes, 1).extend([found[4].receipt], -1)
        assert await leasing(nodes, 1).nack([found[4].receipt], delay_ms=0) == [None]
        assert values(await take_all(nodes, 2)) == values([found[4]])

    nodes_story(story)


def test_a_poll_that_waits_is_woken_by_a_message_at_another_node() -> None:
    async def story(nodes: Nodes) -> None:
        for front in range(3):
            for node in range(3):
                waiting = asyncio.ensure_future(leasing(nodes, front).take(taking(nodes, wait_ms=20_000)))
                await asyncio.sleep(1)
                assert not waiting.done()
                began = nodes.loop.time()
                at = nodes.led_by(node, "t")[0]
                await send(nodes.brokers[node], "t", to(at.partition, f"{front}{node}"))
                (found,) = await waiting
                assert nodes.loop.time() - began < 1
                assert values([found]) == [f"{front}{node}"]
                assert await leasing(nodes, front).ack([found.receipt]) == [None]

    nodes_story(story)


def test_a_wait_that_is_over_finds_nothing_and_leaves_nobody_in_line() -> None:
    async def story(nodes: Nodes) -> None:
        began = nodes.loop.time()
        assert await leasing(nodes, 0).take(taking(nodes, wait_ms=3_000)) == []
        assert 3 <= nodes.loop.time() - began < 3.5
        await fill(nodes, each=1)
        assert in_flight(nodes) == 0

    nodes_story(story)


def test_a_node_that_stops_lets_everybody_go_who_waits_at_others() -> None:
    async def story(nodes: Nodes) -> None:
        waiting = asyncio.ensure_future(leasing(nodes, 0).take(taking(nodes, wait_ms=20_000)))
        await asyncio.sleep(1)
        began = nodes.loop.time()
        nodes.brokers[0].stop_waiting()
        assert await waiting == []
        assert nodes.loop.time() - began < 1

    nodes_story(story)


def test_messages_at_two_nodes_at_once_are_handed_out_or_given_back_and_none_twice() -> None:
    async def story(nodes: Nodes) -> None:
        held: Counter[str] = Counter()
        for round_ in range(20):
            waiting = [
                asyncio.ensure_future(leasing(nodes, front).take(taking(nodes, limit=1, wait_ms=20_000)))
                for front in range(3)
            ]
            await asyncio.sleep(0.5)
            sends = [
                send(broker, "t", to(nodes.led_by(node, "t")[0].partition, f"{round_}-{node}"))
                for node, broker in enumerate(nodes.brokers)
            ]
            await asyncio.gather(*sends)
            for found in await asyncio.gather(*waiting):
                assert len(found) == 1
                held[values(found)[0]] += 1
                assert (await leasing(nodes, round_ % 3).ack([found[0].receipt])) == [None]
        await asyncio.sleep(1)
        assert in_flight(nodes) == 0
        assert set(held.values()) == {1} and len(held) == 60

    nodes_story(story)


def test_what_comes_to_more_than_asked_for_is_given_back_at_once() -> None:
    async def story(nodes: Nodes) -> None:
        waiting = asyncio.ensure_future(leasing(nodes, 0).take(taking(nodes, limit=1, wait_ms=20_000)))
        await asyncio.sleep(0.5)
        await asyncio.gather(
            *(
                send(broker, "t", to(nodes.led_by(node, "t")[0].partition, str(node)))
                for node, broker in enumerate(nodes.brokers)
            )
        )
        (first,) = await waiting
        await asyncio.sleep(0.1)
        assert in_flight(nodes) == 1
        others = await take_all(nodes, 1)
        assert sorted(values([first, *others])) == ["0", "1", "2"]

    nodes_story(story)


@pytest.mark.parametrize("after_ms", [500, 1_000, 1_001, 1_002, 1_003])
def test_who_goes_away_leaves_no_lease_behind(after_ms: int) -> None:
    async def story(nodes: Nodes) -> None:
        waiting = asyncio.ensure_future(leasing(nodes, 0).take(taking(nodes, wait_ms=20_000)))
        loop = asyncio.get_running_loop()
        at = nodes.led_by(1, "t")[0]
        loop.call_later(1, lambda: asyncio.ensure_future(send(nodes.brokers[1], "t", to(at.partition, "a"))))
        loop.call_later(after_ms / 1000, waiting.cancel)
        await asyncio.wait([waiting])
        await asyncio.sleep(2)
        taken = [] if waiting.cancelled() else values(waiting.result())
        assert not taken or after_ms > 1_002, "it was there before the caller went away"
        assert in_flight(nodes) == len(taken)
        assert [*taken, *values(await take_all(nodes, 2))] == ["a"]

    nodes_story(story)


def test_a_node_that_is_gone_hides_its_own_messages_alone() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        nodes.gone.add(1)
        found = await take_all(nodes, 0)
        assert {one.stored.partition for one in found} == {
            at.partition for node in (0, 2) for at in nodes.led_by(node, "t")
        }
        only = replace(taking(nodes), partitions=tuple(nodes.led_by(1, "t")))
        with pytest.raises(PeerOutOfReach):
            await leasing(nodes, 0).take(only)
        nodes.gone.clear()
        assert len(await take_all(nodes, 0)) == 2

    nodes_story(story)


def test_a_node_that_stands_still_holds_up_nobody_for_long() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        nodes.silent.add(1)
        began = nodes.loop.time()
        found: list[Delivered] = []
        while len(found) < 4 and nodes.loop.time() - began < 60:
            found += await leasing(nodes, 0).take(taking(nodes))
        assert len(found) == 4 and nodes.loop.time() - began < 20
        began = nodes.loop.time()
        assert await leasing(nodes, 0).take(taking(nodes, wait_ms=2_000)) == []
        assert nodes.loop.time() - began < 12
        at, receipt = nodes.led_by(1, "t")[0], "t:{}:0:1:nonce"
        acking = asyncio.ensure_future(leasing(nodes, 0).ack([receipt.format(at.partition)]))
        await asyncio.sleep(1)
        began = nodes.loop.time()
        nodes.move(at, 2)
        assert [type(one) for one in await acking] == [StaleReceipt]
        assert nodes.loop.time() - began < 1, "whoever leads now is asked at once"

    nodes_story(story)


def test_a_poll_goes_on_when_the_leader_changes_while_it_waits() -> None:
    async def story(nodes: Nodes) -> None:
        at = nodes.led_by(1, "t")[0]
        only = replace(taking(nodes, wait_ms=20_000), partitions=(at,))
        waiting = asyncio.ensure_future(leasing(nodes, 0).take(only))
        await asyncio.sleep(1)
        nodes.move(at, 2)
        await asyncio.sleep(1)
        await send(nodes.brokers[1], "t", to(at.partition, "a"))
        (found,) = await waiting
        assert values([found]) == ["a"]
        assert nodes.brokers[2].leasing.in_flight("q", "me") == 1

    nodes_story(story)


def test_an_ack_waits_for_a_leader_that_is_not_there_yet() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        at = nodes.led_by(1, "t")[0]
        (found,) = await leasing(nodes, 0).take(replace(taking(nodes), partitions=(at,)))
        nodes.move(at, -1)
        acking = asyncio.ensure_future(leasing(nodes, 0).ack([found.receipt]))
        await asyncio.sleep(0.5)
        assert not acking.done()
        nodes.move(at, 1)
        assert await acking == [None]
        nodes.move(at, -1)
        (failed,) = await leasing(nodes, 0).ack([found.receipt])
        assert isinstance(failed, NotLeader)

    nodes_story(story)


def test_a_consumer_holds_no_more_than_it_may_wherever_the_messages_are() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=5)
        found: list[Delivered] = []
        for _ in range(30):
            found += await leasing(nodes, 0).take(replace(taking(nodes, limit=4), in_flight_max=10))
        assert len(found) == 10
        assert await leasing(nodes, 1).ack([one.receipt for one in found[:6]]) == [None] * 6
        for _ in range(30):
            found += await leasing(nodes, 0).take(replace(taking(nodes, limit=4), in_flight_max=10))
        assert len(found) == 16

    nodes_story(story)


def test_an_attempt_that_is_asked_for_again_gets_the_same_through_any_node() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        asked = replace(taking(nodes, limit=3), attempt_id="again")
        first = await leasing(nodes, 0).take(asked)
        assert first
        for node in range(3):
            assert values(await leasing(nodes, node).take(asked)) == values(first)
        assert in_flight(nodes) == len(first)

    nodes_story(story)


def test_counts_are_those_of_all_nodes_and_a_purge_reaches_all() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        taken = await leasing(nodes, 0).take(taking(nodes, limit=2))
        for node in range(3):
            counts = await leasing(nodes, node).counts("q", "t")  # type: ignore[misc]
            assert (counts.ready, counts.in_flight) == (12 - len(taken), len(taken))
            assert await leasing(nodes, node).held_of("q", "t") == len(taken)  # type: ignore[misc]
        await leasing(nodes, 1).skip_all("q", "t")
        counts = await leasing(nodes, 2).counts("q", "t")  # type: ignore[misc]
        assert (counts.ready, counts.in_flight) == (0, 0)
        assert await take_all(nodes, 2) == []

    nodes_story(story)


# --- members ----------------------------------------------------------------------------------------------


class RestMember:
    """A REST member that asks another node each time."""

    def __init__(self, nodes: Nodes, group: str, name: str, **reading: object) -> None:
        self.nodes, self.group, self.name = nodes, group, name
        self.reading = MemberReading(**reading)  # type: ignore[arg-type]
        self.generation = -1
        self.turn = 0

    @property
    def next(self) -> Consuming:
        self.turn += 1
        return consuming(self.nodes, self.turn % 3)

    async def join(self) -> None:
        request = RestJoin(self.group, self.name, "unused", "client", ("t",), "cooperative")
        self.generation = (await self.next.join(request, self.reading)).generation

    async def poll(self, wait_ms: int = 0, limit: int = 100) -> list[Delivered]:
        polled = await self.next.poll(Poll(self.group, self.name, self.generation, limit, wait_ms))
        self.generation = polled.generation
        return polled.messages


def test_a_member_polls_acks_and_commits_through_any_node() -> None:
    async def story(nodes: Nodes) -> None:
        for home in range(3):
            await fill(nodes, each=1)
            member = RestMember(nodes, nodes.name_at(home), "m", auto_commit=False)
            await member.join()
            found: list[Delivered] = []
            while some := await member.poll():
                found += some
                assert await leasing(nodes, member.turn % 3).ack([one.receipt for one in some]) == [None] * len(some)
            assert len(found) == SHARD_COUNT * (home + 1)
            commits = [OffsetCommit("t", at.partition, home + 1) for at in nodes.places("t")]
            request = CommitRequest(member.group, "m", member.generation, None, commits)
            assert [one.error for one in await member.next.commit(request)] == [None] * SHARD_COUNT
            for node in range(3):
                groups = nodes.brokers[node].routed(nodes.brokers[node].groups)
                lag = await groups.lag(member.group)  # type: ignore[misc]
                assert [(one.partition, one.lag) for one in lag] == [(number, 0) for number in range(SHARD_COUNT)]
                described = await groups.describe(member.group)  # type: ignore[misc]
                assert [one.member_id for one in described.members] == ["m"]
            await member.next.leave(member.group, "m")

    nodes_story(story)


def test_a_member_that_begins_with_what_comes_gets_it_from_every_node() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        member = RestMember(nodes, nodes.name_at(1), "m", auto_commit=False, begin="latest")
        await member.join()
        waiting = asyncio.ensure_future(member.poll(wait_ms=20_000))
        await asyncio.sleep(0.5)
        new = [f"{number}-new" for number in range(SHARD_COUNT)]
        for number, value in enumerate(new):
            await send(nodes.brokers[0], "t", to(number, value))
        found = await waiting
        while some := await member.poll():
            found += some
        assert sorted(values(found)) == new

    nodes_story(story)


def test_what_a_member_holds_anywhere_is_free_when_it_leaves_or_joins_again() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        member = RestMember(nodes, nodes.name_at(2), "m", auto_commit=False)
        for again in range(3):
            await member.join()
            found: list[Delivered] = []
            while some := await member.poll():
                found += some
            assert len(found) == SHARD_COUNT, f"{again}"
        await member.next.leave(member.group, "m")
        await asyncio.sleep(1)
        assert sum(broker.leasing.in_flight(member.group, "m") for broker in nodes.brokers) == 0

    nodes_story(story)


def test_what_a_member_left_to_the_node_is_acked_at_every_node() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        member = RestMember(nodes, nodes.name_at(0), "m")
        await member.join()
        found: list[Delivered] = []
        while some := await member.poll():
            found += some
        assert len(found) == SHARD_COUNT
        await asyncio.sleep(6)
        assert await member.poll() == []
        assert sum(broker.leasing.in_flight(member.group, "m") for broker in nodes.brokers) == 0
        await member.next.leave(member.group, "m")
        await member.join()
        assert await member.poll() == []

    nodes_story(story)


def test_a_member_that_answers_itself_is_heard_of_where_its_group_is() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        group = nodes.name_at(0)
        member = RestMember(nodes, group, "m")
        await member.join()
        found: list[Delivered] = []
        while some := await member.poll():
            found += some
        elsewhere = next(one for one in found if nodes.leader(nodes.places("t")[one.stored.partition]) == 1)
        assert await leasing(nodes, 2).ack([elsewhere.receipt]) == [None]
        await asyncio.sleep(6)
        await member.poll()
        held = sum(broker.leasing.in_flight(group, "m") for broker in nodes.brokers)
        assert held == SHARD_COUNT - 1, "nothing else was acked for it"

    nodes_story(story)


def test_a_group_is_reset_over_all_partitions() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        group = nodes.name_at(1)
        for node in range(3):
            front = nodes.brokers[node].routed(nodes.brokers[node].consuming)
            await front.commit(CommitRequest(group, "", -1, None, [OffsetCommit("t", 0, 0)]))
            reset = nodes.brokers[node].routed(nodes.brokers[node].reset)
            moved = await reset.reset(Reset(group, "t", "latest"))
            assert [(one.partition, one.after) for one in moved] == [(number, 2) for number in range(SHARD_COUNT)]

    nodes_story(story)


def test_groups_of_all_nodes_are_listed_and_deleted_by_any() -> None:
    async def story(nodes: Nodes) -> None:
        names = [nodes.name_at(node) for node in range(3)]
        for name in names:
            await consuming(nodes, 0).commit(CommitRequest(name, "", -1, None, [OffsetCommit("t", 0, 0)]))
        for node in range(3):
            groups = nodes.brokers[node].routed(nodes.brokers[node].groups)
            assert [one.group for one in await groups.list()] == sorted(names)  # type: ignore[misc]
        await nodes.brokers[1].routed(nodes.brokers[1].groups).delete(names[0])
        groups = nodes.brokers[2].routed(nodes.brokers[2].groups)
        assert [one.group for one in await groups.list()] == sorted(names[1:])  # type: ignore[misc]

    nodes_story(story, chosen=settings())
