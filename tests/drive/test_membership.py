"""Nodes of a cluster on a simulated store: who is registered, who decides, and who leads a shard afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from goqueue.base.errors import MetadataConflict, StoreOutOfReach
from goqueue.base.metadata import Change, Commit, Session
from goqueue.base.startup_errors import WrongNodeId
from goqueue.core.cluster.controlling import Controlling
from goqueue.core.cluster.records import CONTROLLER, NOBODY, NODES, SHARDS, NodeRecord, ShardRecord, encode
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.membership import NodeMembership
from goqueue.sim.metadata import SimMetadata, SimMetadataStore
from goqueue.sim.time import VirtualLoop, run_virtually

WAIT_S = 3.0


class Member:
    """A node as far as its membership goes."""

    def __init__(self, store: SimMetadataStore, number: int, start: int = 1, disk: str = "") -> None:
        self.client: SimMetadata = store.client()
        self.follower = ImageFollower(self.client, self._changed)
        self.record = NodeRecord("", f"{number}.{start}", disk=disk or f"disk {number}")
        self.membership = NodeMembership(self.follower, number, self.record, WAIT_S)

    def _changed(self, change: Change) -> None:
        self.membership.metadata_changed()

    async def join(self) -> None:
        await self.follower.start()
        await self.membership.join()

    async def leave(self) -> None:
        await self.membership.leave()
        await self.follower.stop()

    @property
    def shard(self) -> ShardRecord:
        return self.follower.image.shard(0)


async def three(store: SimMetadataStore) -> list[Member]:
    record = ShardRecord(NOBODY, 0, (0, 1, 2), (0, 1, 2), starts={node: f"{node}.1" for node in range(3)})
    members = [Member(store, number) for number in range(3)]
    for member in members:
        await member.join()
    store.commit(Commit({f"{SHARDS}0": encode(record)}))
    await asyncio.sleep(1)
    return members


def run(scenario: Callable[[SimMetadataStore, list[Member]], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        store = SimMetadataStore()
        members = await three(store)
        try:
            await scenario(store, members)
        finally:
            for member in members:
                await member.leave()

    run_virtually(main)


def deciding(members: list[Member]) -> Member:
    record = members[0].follower.image.controller
    assert record is not None
    return members[record.node]


async def vanish(store: SimMetadataStore, member: Member) -> None:
    """As a process that is killed: its session ends by itself."""
    for task in member.membership._tasks:
        task.cancel()
    member.client.is_cut_off = True
    for session in member.client._sessions:
        store.end_session(session)


def test_all_are_registered_one_decides_and_the_first_replica_leads() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        for member in members:
            assert list(member.follower.image.nodes()) == [0, 1, 2]
            assert (member.shard.leader, member.shard.epoch) == (0, 1)
            assert member.membership.is_held
        assert len({one.follower.image.controller for one in members}) == 1
        assert [members[0].follower.image.member(node) is not None for node in range(3)] == [True] * 3

    run(scenario)


def test_a_leader_that_is_gone_is_followed_by_one_in_sync() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        await vanish(store, members[0])
        await asyncio.sleep(1)
        assert (members[1].shard.leader, members[1].shard.epoch) == (1, 2)
        await vanish(store, members[1])
        await asyncio.sleep(1)
        assert (members[2].shard.leader, members[2].shard.epoch) == (2, 3)

    run(scenario)


def test_nobody_leads_while_none_of_those_that_may_is_there() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        record = members[0].shard
        alone = ShardRecord(0, record.epoch, (0, 1, 2), (0,), starts={0: "0.1"})
        store.commit(Commit({f"{SHARDS}0": encode(alone)}))
        await vanish(store, members[0])
        await asyncio.sleep(1)
        assert members[1].shard.leader == NOBODY
        again = Member(store, 0, start=2)
        await again.join()
        await asyncio.sleep(1)
        assert (again.shard.leader, again.shard.starts[0]) == (0, "0.2")
        assert again.shard.epoch > record.epoch, "never in its old epoch"
        await again.leave()

    run(scenario)


def test_a_node_that_lost_its_disk_does_not_count_any_more() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        await vanish(store, members[0])
        await asyncio.sleep(1)
        again = Member(store, 0, start=2, disk="a new disk")
        await again.join()
        await asyncio.sleep(1)
        assert again.shard.leader in (1, 2) and 0 not in again.shard.in_sync
        found = again.follower.image.member(0)
        assert found is not None and found.disk == "a new disk"
        await again.leave()

    run(scenario)


def test_who_decides_is_replaced_and_the_deposed_one_can_do_nothing() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        first = deciding(members)
        image = first.follower.image
        old = Controlling(image.created(CONTROLLER))
        await vanish(store, first)
        await asyncio.sleep(1)
        others = [one for one in members if one is not first]
        second = others[0].follower.image.controller
        assert second is not None and second.node != first.membership._node_id
        first.client.is_cut_off = False
        commits = list(old.commits(image)) or [Commit({"slots": "x"}, created={CONTROLLER: old._created})]
        for commit in commits:
            with pytest.raises(MetadataConflict):
                await first.client.commit(commit)

    run(scenario)


def test_a_start_on_the_same_disk_takes_the_place_of_the_one_before_at_once() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        again = Member(store, 1, start=2)
        await again.join()
        assert again.follower.image.nodes()[1].incarnation == "1.2"
        await again.leave()

    run(scenario)


def test_a_start_on_another_disk_waits_for_the_one_before_it_to_be_forgotten() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        again = Member(store, 1, start=2, disk="another")
        joining = asyncio.create_task(again.join())
        await asyncio.sleep(1)
        assert not joining.done()
        await vanish(store, members[1])
        await asyncio.sleep(1)
        assert joining.done() and again.follower.image.nodes()[1].incarnation == "1.2"
        await again.leave()

    run(scenario)


def test_a_number_that_is_taken_is_refused() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        other = Member(store, 1, start=7, disk="another")
        with pytest.raises(WrongNodeId, match="number of its own"):
            await other.join()
        await other.follower.stop()

    run(scenario)


def test_a_node_whose_session_ended_while_it_lived_registers_again() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        leader = members[0]
        store.end_session(leader.client._sessions[-1])
        held = [leader.membership.is_held]
        await asyncio.sleep(2)
        held.append(leader.membership.is_held)
        assert held == [False, True]
        assert list(members[1].follower.image.nodes()) == [0, 1, 2]
        assert members[1].shard.leader != NOBODY

    run(scenario)


def test_a_node_comes_back_when_a_copy_of_it_that_had_its_place_is_gone() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        copy = Member(store, 1, start=2)
        await copy.join()
        await asyncio.sleep(2)
        nodes = members[0].follower.image.nodes
        assert nodes()[1].incarnation == "1.2", "the two do not fight"
        await copy.leave()
        await asyncio.sleep(2)
        assert nodes()[1].incarnation == "1.1" and members[1].membership.is_held

    run(scenario)


def test_a_store_that_is_out_of_reach_or_silent_stops_nothing_for_good() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        for member in members:
            member.client.loses_answers = True
        await vanish(store, members[0])
        await asyncio.sleep(2)
        for member in members[1:]:
            member.client.loses_answers, member.client.is_cut_off = False, True
        await asyncio.sleep(2)
        for member in members[1:]:
            member.client.is_cut_off = False
        await asyncio.sleep(2)
        assert members[2].shard.leader in (1, 2)

    run(scenario)


def test_a_node_that_stands_still_while_it_joins_joins_all_the_same() -> None:
    """Its session is over before it is registered."""

    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        late = Member(store, 3)
        await late.follower.start()
        open_session, begun = late.client.open_session, list[object]()

        async def lost_at_first() -> Session:
            session = await open_session()
            if not begun:
                store.end_session(session.id)
            begun.append(session)
            return session

        late.client.open_session = lost_at_first  # type: ignore[method-assign, assignment]
        await late.membership.join()
        assert len(begun) == 2 and late.membership.is_held
        assert 3 in members[0].follower.image.nodes()
        await late.leave()

    run(scenario)


def test_sessions_of_registrations_that_failed_do_not_pile_up() -> None:
    """Another node took the number while this one stood still."""

    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        late = members[1]
        late.client.is_cut_off = True
        store.end_session(late.client._sessions[-1])
        other = Member(store, 1, start=2, disk="another")
        await other.join()
        late.client.is_cut_off = False
        await asyncio.sleep(20 * WAIT_S)
        assert len([one for one in late.client._sessions if store.state.is_open(one)]) <= 1
        await other.leave()
        await asyncio.sleep(WAIT_S)
        assert late.membership.is_held and late.follower.image.nodes()[1].incarnation == "1.1"

    run(scenario)


def test_what_a_node_tells_while_it_registers_again_is_told() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        client, membership = members[1].client, members[1].membership
        store.end_session(client._sessions[-1])
        client.delay_s = 1.0
        await asyncio.sleep(2.9)
        held = [membership.is_held]
        await membership.tell(closing=True)
        await asyncio.sleep(5)
        held.append(membership.is_held)
        assert held == [False, True] and members[0].follower.image.nodes()[1].closing

    run(scenario)


def test_what_the_store_did_not_hear_is_told_again() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        members[1].client.is_cut_off = True
        with pytest.raises(StoreOutOfReach):
            await members[1].membership.tell(closing=True)
        members[1].client.is_cut_off = False
        await asyncio.sleep(1)
        assert members[0].follower.image.nodes()[1].closing

    run(scenario)


async def until_led(member: Member, shards: range, leaders: set[int]) -> float:
    """Seconds of the loop's clock until then."""
    loop, image = asyncio.get_running_loop(), member.follower.image
    began = loop.time()
    async with asyncio.timeout(60):
        while not all(image.shard(shard).leader in leaders for shard in shards):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return loop.time() - began


def test_shards_that_lose_their_leader_together_get_others_together() -> None:
    """A store that takes 50 ms for each change does not make the last of forty wait for two seconds."""

    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        store.commit(Commit({f"{SHARDS}{shard}": encode(members[0].shard) for shard in range(40)}))
        for member in members:
            member.client.delay_s = 0.05
        await asyncio.sleep(1)
        await members[0].membership.tell(leaving=True)
        assert await until_led(members[1], range(40), {1, 2}) < 1.0

    run(scenario)


def test_what_happens_while_the_controller_decides_is_looked_at_at_once() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        for member in members:
            member.client.delay_s = 0.03
        await asyncio.sleep(1)
        controller = deciding(members)
        leaving, after = [one for one in members if one is not controller]
        record = ShardRecord(NOBODY, 0, (0, 1, 2), (0, 1, 2), starts=members[0].shard.starts)
        shard = ShardRecord(leaving.membership._node_id, 7, record.replicas, record.in_sync, starts=record.starts)
        store.commit(Commit({f"{SHARDS}0": encode(shard), f"{SHARDS}1": encode(record)}))  # which has it decide
        await asyncio.sleep(0.04)
        store.commit(Commit({f"{NODES}{leaving.membership._node_id}": encode(gone(leaving))}))
        staying = {one.membership._node_id for one in (controller, after)}
        assert await until_led(after, range(1), staying) < 0.15

    run(scenario)


def gone(member: Member) -> NodeRecord:
    return msgspec.structs.replace(member.record, leaving=True)


def test_what_a_node_tells_while_it_is_registered_again_is_not_lost() -> None:
    async def scenario(store: SimMetadataStore, members: list[Member]) -> None:
        damaged, nodes = members[1], members[0].follower.image.nodes
        damaged.client.delay_s = 0.5
        damaged.client.lose_sessions()
        await asyncio.sleep(0.9)
        assert not damaged.membership.is_held and 1 not in nodes(), "what it registers with is on its way"
        await damaged.membership.tell(damaged=(0,))
        await asyncio.sleep(5)
        assert nodes()[1].damaged == (0,)

    run(scenario)
