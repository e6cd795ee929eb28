"""Queue views and what they need from other nodes: the group that is kept there, and the dead letters' partition."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import GoQueueError, NotLeader, PeerLost, StaleReceipt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Delivered, Take
from goqueue.core.delivery.records import ViewId
from goqueue.core.groups.records import GroupGone
from goqueue.core.groups.requests import CommitRequest, OffsetCommit, RestJoin
from goqueue.service.consume import Poll
from goqueue.service.copy_targets import STORE
from goqueue.service.groups_anywhere import MOVED
from goqueue.service.readers import MemberReading
from goqueue.service.router import DO
from goqueue.service.shard_loading import ShardLoading
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_transactions import read

GRAVES = TopicPartition("graves", 0)


async def jobs(nodes: Nodes, node: int, count: int) -> TopicPartition:
    """A partition with messages that the node leads."""
    await nodes.create("jobs", 6, {"queue.dead.letter.topic": "graves"})
    at = nodes.place_at(node, "jobs")
    messages = [InputMessage(None, f"m{number}".encode(), partition=at.partition) for number in range(count)]
    await nodes.brokers[node].publish.messages(PublishMessages("jobs", messages))
    return at


async def take(nodes: Nodes, group: str, at: TopicPartition, limit: int) -> list[Delivered]:
    found = await patiently(lambda: nodes.leader_of(at).leasing.take(Take(group, [at], "me", limit, 60_000)))
    return list(found)


def stands_at(nodes: Nodes, group: str, at: TopicPartition) -> int | None:
    """What the group is told to have done."""
    try:
        found = nodes.keeper_of(group).groups.offsets(group, [at]).get(at)
    except (GoQueueError, KeyError):
        return None
    return None if found is None else found.offset


# --- leases -------------------------------------------------------------------------------------------------------


def test_a_new_leader_whose_clock_is_ahead_takes_no_lease_back_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """And late by no more than clocks may differ."""

    async def story(nodes: Nodes) -> None:
        nodes.wrong_ms[1] = ahead_ms = 400
        await nodes.start_all()
        at = await jobs(nodes, 0, 1)
        asked = Take("g", [at], "me", 1, 5_000)
        assert len(await nodes.brokers[0].leasing.take(asked)) == 1
        ends = asyncio.get_running_loop().time() + 5
        await nodes.move(nodes.any.node.shard_map.of_partition(at), 1)
        left_s = ends - asyncio.get_running_loop().time()
        await asyncio.sleep(left_s - 0.05)
        assert await nodes.brokers[1].leasing.take(asked) == []
        skew_ms = nodes.any.node.settings.cluster.clock_skew_ms
        await asyncio.sleep(0.1 + (skew_ms - ahead_ms) / 1000)
        assert len(await nodes.brokers[1].leasing.take(asked)) == 1

    run_nodes(story, monkeypatch, is_started=False)


def test_a_leader_that_does_not_know_of_the_next_one_calls_no_receipt_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is the next one's. A door that takes an old receipt for answered would lose the answer."""

    async def story(nodes: Nodes) -> None:
        at = await jobs(nodes, 0, 2)
        nodes.hide_changes(0, True)
        await nodes.move(nodes.any.node.shard_map.of_partition(at), 1)
        lease = Take("g", [at], "me", 1, 60_000)
        (taken,) = await patiently(lambda: nodes.brokers[1].leasing.take(lease))
        asked = asyncio.ensure_future(nodes.brokers[0].leasing.ack([taken.receipt]))
        await asyncio.sleep(1)
        assert not asked.done()
        nodes.hide_changes(0, False)
        with pytest.raises(NotLeader):
            await asked
        assert await nodes.brokers[1].leasing.ack([taken.receipt]) == [None]

    run_nodes(story, monkeypatch)


def test_a_receipt_of_no_lease_is_stale_at_who_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await jobs(nodes, 0, 2)
        (taken,) = await take(nodes, "g", at, 1)
        assert await nodes.brokers[0].leasing.ack([taken.receipt]) == [None]
        (outcome,) = await nodes.brokers[0].leasing.ack([taken.receipt])
        assert isinstance(outcome, StaleReceipt)

    run_nodes(story, monkeypatch)


# --- groups ------------------------------------------------------------------------------------------------------


def test_acks_move_a_group_that_another_node_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 4), nodes.id_at(1, "g")
        taken = await take(nodes, group, at, 4)
        await nodes.brokers[0].leasing.ack([one.receipt for one in taken[:3]])
        await until(lambda: stands_at(nodes, group, at) == 3)
        assert [one.group for one in nodes.brokers[1].groups.list()] == [group]
        assert nodes.brokers[0].groups.list() == []
        await nodes.brokers[0].leasing.ack([taken[3].receipt])
        await until(lambda: stands_at(nodes, group, at) == 4)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("dies", ["the group's node", "the view's node"])
def test_a_group_hears_of_acks_whoever_dies(monkeypatch: pytest.MonkeyPatch, dies: str) -> None:
    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 4), nodes.id_at(1, "g")
        taken = await take(nodes, group, at, 4)
        await nodes.brokers[0].leasing.ack([one.receipt for one in taken[:2]])
        dead = 1 if dies == "the group's node" else 0
        nodes.kill(dead)  # nothing is told yet
        await nodes.start(dead)
        await nodes.until_led()
        left = [one.receipt for one in taken[2:]]
        assert await patiently(lambda: nodes.leader_of(at).leasing.ack(left)) == [None, None], "leases go on"
        assert await take(nodes, group, at, 1) == []
        await until(lambda: stands_at(nodes, group, at) == 4)

    run_nodes(story, monkeypatch)


def test_late_news_of_acks_open_nothing_that_was_done_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who led a view tells its group how far it got. By then the group's own node may lead it, and be further."""

    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 6), nodes.id_at(1, "g")
        is_cut, lets = [True], asyncio.Event()

        async def late(by: int, to: int, verb: str) -> None:
            if (by, verb) == (0, MOVED):
                if is_cut[0]:
                    raise PeerLost("cut off")
                lets.set()

        nodes.before_call = late
        taken = await take(nodes, group, at, 2)
        assert await nodes.brokers[0].leasing.ack([one.receipt for one in taken]) == [None, None]
        await asyncio.sleep(0.3)
        await nodes.move(nodes.any.node.shard_map.of_partition(at), 1)
        monkeypatch.setattr("goqueue.service.positions._TELL_S", 60.0)
        taken = await take(nodes, group, at, 2)
        assert await nodes.brokers[1].leasing.ack([one.receipt for one in taken]) == [None, None]
        is_cut[0] = False
        await asyncio.wait_for(lets.wait(), 60)
        await asyncio.sleep(1)
        offsets = [one.stored.offset for one in await take(nodes, group, at, 6)]
        assert offsets == [4, 5]

    run_nodes(story, monkeypatch)


def test_a_view_begins_where_its_group_stands_at_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 5), nodes.id_at(2, "g")
        commit = CommitRequest(group, "", -1, None, [OffsetCommit(at.topic, at.partition, 3)])
        await nodes.brokers[2].groups.commit_all(commit)
        assert [one.stored.offset for one in await take(nodes, group, at, 10)] == [3, 4]

    run_nodes(story, monkeypatch)


def test_a_commit_moves_a_view_at_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 6), nodes.id_at(2, "g")
        assert [one.stored.offset for one in await take(nodes, group, at, 1)] == [0]
        commit = CommitRequest(group, "", -1, None, [OffsetCommit(at.topic, at.partition, 4)])
        await nodes.brokers[2].groups.commit_all(commit)
        view = ViewId(group, at.topic, at.partition)
        await until(lambda: (found := nodes.brokers[0].deliveries.find(view)) is not None and found.base >= 4)
        assert [one.stored.offset for one in await take(nodes, group, at, 10)] == [4, 5]
        nodes.brokers[2].positions.heard([GroupGone(group)])
        await until(lambda: nodes.brokers[0].deliveries.find(view) is None)

    run_nodes(story, monkeypatch)


async def finish(nodes: Nodes, group: str, at: TopicPartition) -> None:
    """The group has done all of the partition, and is told so."""
    taken = await take(nodes, group, at, 4)
    await nodes.leader_of(at).leasing.ack([one.receipt for one in taken])
    await until(lambda: stands_at(nodes, group, at) == 4)


async def begin_anew(nodes: Nodes, group: str, at: TopicPartition) -> None:
    await nodes.keeper_of(group).groups.reset_offsets(group, [OffsetCommit(at.topic, at.partition, 0)])


def test_a_view_that_is_being_loaded_hears_of_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a group is told to have done is behind what its views know, so that a load alone cannot tell."""
    load = ShardLoading.load

    async def slow(self: ShardLoading, shard: int) -> None:
        await asyncio.sleep(0.5)
        await load(self, shard)

    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 4), nodes.id_at(1, "g")
        await finish(nodes, group, at)
        monkeypatch.setattr(ShardLoading, "load", slow)
        nodes.appoint(nodes.any.node.shard_map.of_partition(at), 2)
        await asyncio.sleep(0.1)
        await begin_anew(nodes, group, at)
        await asyncio.sleep(2)
        assert [one.stored.offset for one in await take(nodes, group, at, 10)] == [0, 1, 2, 3]

    run_nodes(story, monkeypatch)


def test_a_group_that_heard_of_acks_has_them_whoever_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 4), nodes.id_at(1, "g")
        taken = await take(nodes, group, at, 4)
        with nodes.held_fetches(1):
            await asyncio.sleep(1)  # those under way end
            await nodes.brokers[0].leasing.ack([one.receipt for one in taken])
            await until(lambda: (0, 1, "groups.moved") in nodes.calls)
            await asyncio.sleep(0.1)
            nodes.kill(1)  # no replica has it
        await until(lambda: stands_at(nodes, group, at) == 4)

    run_nodes(story, monkeypatch)


def test_a_view_that_heard_of_a_reset_has_it_whoever_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 4), nodes.id_at(1, "g")
        await finish(nodes, group, at)
        with nodes.held_fetches(0):
            await asyncio.sleep(1)  # those under way end
            await begin_anew(nodes, group, at)
            await until(lambda: (1, 0, "views.committed") in nodes.calls)
            await asyncio.sleep(0.1)
            nodes.kill(0)  # no replica has it
        await nodes.until_led()
        await asyncio.sleep(5)
        assert [one.stored.offset for one in await take(nodes, group, at, 10)] == [0, 1, 2, 3]

    run_nodes(story, monkeypatch)


def test_a_group_that_wants_order_gets_it_from_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("jobs", 6)
        at, group = nodes.place_at(0, "jobs"), nodes.id_at(1, "g")
        await nodes.brokers[1].groups.configure(group, {"queue.order": "key"})
        messages = [InputMessage(b"k", b"v", partition=at.partition) for _ in range(3)]
        await nodes.brokers[0].publish.messages(PublishMessages("jobs", messages))
        assert [one.stored.offset for one in await take(nodes, group, at, 1)] == [0]
        assert await take(nodes, group, at, 10) == [], "the next of the key waits"

    run_nodes(story, monkeypatch)


def test_what_was_lost_on_its_way_to_a_member_is_not_done_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that keeps its group acks for the member, and did not hear what another one handed out."""

    async def story(nodes: Nodes) -> None:
        at, group = await jobs(nodes, 0, 4), nodes.id_at(1, "g")
        consuming = nodes.brokers[1].routed(nodes.brokers[1].consuming)
        asked = RestJoin(group=group, member_id="", new_member_id="m", client_id="c", topics=["jobs"], client_host="/h")
        joined = await consuming.join(asked, MemberReading(lease_ms=20_000))
        generation, lost = joined.generation, list[str]()

        async def lose(source: int, target: int, verb: str) -> None:
            if (source, target, verb) == (1, 0, DO) and not lost and nodes.brokers[0].leasing.in_flight(group, "m"):
                lost.append(verb)
                raise PeerLost("The connection to the other node ended.")

        nodes.after_call = lose
        seen = list[int]()
        for _ in range(40):
            polled = await consuming.poll(Poll(group, "m", generation, 2, 1_000))
            generation = polled.generation
            seen += [one.stored.offset for one in polled.messages if one.stored.partition == at.partition]
        assert lost and sorted(seen) == [0, 1, 2, 3]

    run_nodes(story, monkeypatch)


# --- dead letters ------------------------------------------------------------------------------------------------


async def buried(nodes: Nodes, dead: list[str]) -> None:
    """Each of them is in the dead letters, once, and stays there alone."""
    await until(lambda: nodes.any.topics.find("graves") is not None)
    for _ in range(600):
        if len(await read(nodes, GRAVES)) >= len(dead):
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(5)  # a second copy would come now
    assert Counter(await read(nodes, GRAVES)) == Counter(dead)


async def graves_at(nodes: Nodes, node: int) -> None:
    await nodes.create("graves", 1)
    await nodes.move(nodes.any.node.shard_map.of_partition(GRAVES), node)


def test_dead_letters_go_to_a_topic_that_another_node_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await graves_at(nodes, 1)
        at, group = await jobs(nodes, 0, 5), nodes.id_at(0, "g")
        taken = await take(nodes, group, at, 5)
        await nodes.brokers[0].leasing.reject([one.receipt for one in taken[:3]], "bad")
        await nodes.brokers[0].leasing.ack([one.receipt for one in taken[3:]])
        await buried(nodes, ["m0", "m1", "m2"])
        assert {(by, to) for by, to, verb in nodes.calls if verb == STORE} == {(0, 1)}
        await until(lambda: stands_at(nodes, group, at) == 5)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("dies", ["sender", "receiver"])
def test_a_dead_letter_is_copied_once_whoever_dies(monkeypatch: pytest.MonkeyPatch, dies: str, when: str) -> None:
    async def story(nodes: Nodes) -> None:
        await graves_at(nodes, 1)
        at, group = await jobs(nodes, 0, 3), nodes.id_at(2, "g")
        taken = await take(nodes, group, at, 3)
        dead: list[int] = []

        async def die(by: int, to: int, verb: str) -> None:
            if verb == STORE and not dead:
                dead.append(by if dies == "sender" else to)
                nodes.kill(dead[0])

        if when == "before":
            nodes.before_call = die
        else:
            nodes.after_call = die
        rejecting = asyncio.ensure_future(nodes.brokers[0].leasing.reject([one.receipt for one in taken], "bad"))
        await until(lambda: bool(dead))
        rejecting.cancel()
        await nodes.start(dead[0])
        await nodes.until_led()
        await buried(nodes, ["m0", "m1", "m2"])

    run_nodes(story, monkeypatch)


def test_every_node_finds_the_topics_of_a_pattern_and_the_settings_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("jobs", 6)
        for broker in nodes.brokers.values():
            await broker.groups.resolve_pattern("jo.*")
            assert broker.groups.config_defaults()["queue.order"]

    run_nodes(story, monkeypatch)
