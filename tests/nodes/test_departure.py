"""A node that is about to be stopped hands over what it leads; one that is behind is not ready."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from goqueue.base.commands import Acks, InputMessage, PublishMessages, StoredAt
from goqueue.base.errors import MoveRefused, UnknownNode
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.service.departure import Departure
from tests.nodes.cluster import Nodes, run_nodes, until
from tests.nodes.test_moves import moves_of


def departure_of(broker: Broker) -> Departure:
    return Departure(broker.node.identity.node_id, broker.node.member, moves_of(broker))


def failing(broker: Broker) -> dict[str, str]:
    return {one.name: one.detail for one in broker.health.checks() if not one.ok}


def test_a_node_hands_over_what_it_leads_and_may_lead_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await until(lambda: bool(nodes.led_by(0)))
        leaving = departure_of(nodes.brokers[0])
        assert failing(nodes.brokers[0]) == {}
        found = await nodes.run_at(0, leaving.leave(0, 10_000))
        assert (found.node, found.is_safe, found.reasons, found.leads) == (0, True, [], [])
        assert nodes.led_by(0) == []
        await until(lambda: set(failing(nodes.brokers[0])) == {"leading"})
        await nodes.run_at(0, leaving.stay(0))
        await until(lambda: bool(nodes.led_by(0)))
        assert failing(nodes.brokers[0]) == {}

    run_nodes(story, monkeypatch)


def test_it_waits_until_the_others_can_do_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        moves = moves_of(nodes.brokers[0])
        nodes.kill(2)
        await until(lambda: not moves.restart_safe(0).is_safe)
        found = await nodes.run_at(0, departure_of(nodes.brokers[0]).leave(0, 500))
        assert not found.is_safe and any("would have 1 replicas in sync" in one for one in found.reasons)
        assert found.leads == [], "handed over all the same: who asks will stop it"
        leaving = nodes.run_at(1, departure_of(nodes.brokers[1]).leave(1, 60_000))
        await asyncio.sleep(1)
        assert not leaving.done()
        await nodes.start(2)
        assert (await leaving).is_safe

    run_nodes(story, monkeypatch)


def test_only_the_node_itself_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        for wrong in (departure_of(nodes.brokers[0]).leave(1, 0), departure_of(nodes.brokers[0]).stay(2)):
            with pytest.raises(MoveRefused, match="This is node 0; ask node"):
                await wrong
        with pytest.raises(UnknownNode):
            await departure_of(nodes.brokers[0]).leave(7, 0)
        alone = Departure(0, None, moves_of(nodes.brokers[0]))
        with pytest.raises(MoveRefused, match="not in a cluster"):
            await alone.leave(0, 0)

    run_nodes(story, monkeypatch)


def test_a_node_that_is_behind_is_not_ready_until_it_has_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        seen = set[bool]()
        nodes.kill(1)
        await until(lambda: all(1 not in one.in_sync for one in moves_of(nodes.brokers[0])._view.shards()))
        await nodes.start(1)
        back = nodes.brokers[1]
        seen.add("in sync" in failing(back))
        await until(lambda: failing(back) == {})
        image = back.metadata.image
        assert seen == {True} and all(1 in image.shard(shard).in_sync for shard in image.shards())

    run_nodes(story, monkeypatch)


def test_nobody_waits_for_a_node_that_takes_its_time_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has handed over what it led; as a follower it is taken out of the sets in sync before it fetches no more."""

    async def story(nodes: Nodes) -> None:
        loop, drain = asyncio.get_running_loop(), Broker._drain

        async def slowly(broker: Broker) -> None:
            await asyncio.sleep(3)
            await drain(broker)

        monkeypatch.setattr(Broker, "_drain", slowly)
        await nodes.create("t", 3)
        at = nodes.place_at(0, "t")
        command = PublishMessages("t", [InputMessage(None, b"v", partition=at.partition)], Acks.ALL)
        began, longest = loop.time(), 0.0
        stopping = nodes.run_at(1, nodes.brokers.pop(1).stop())
        while not stopping.done():
            sent = loop.time()
            (stored,) = await nodes.brokers[0].publish.messages(command)
            assert isinstance(stored, StoredAt), stored
            longest = max(longest, loop.time() - sent)
            await asyncio.sleep(0.002)
        await stopping
        assert loop.time() - began > 3 and longest < 0.1, longest

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("hears_last", [0, 1, 2])
def test_whoever_hears_last_who_leads_is_not_waited_for_longer_than_that(
    monkeypatch: pytest.MonkeyPatch, hears_last: int
) -> None:
    """A follower that asks a leader that does not know of it yet asks again at once; who leaves is not waited for."""

    async def story(nodes: Nodes) -> None:
        loop = asyncio.get_running_loop()
        await nodes.create("t", 3)
        leaver, heirs = nodes.brokers[0], (nodes.brokers[1], nodes.brokers[2])
        at = nodes.place_at(0, "t")
        shard = leaver.node.shard_map.of_partition(at)
        writing = nodes.run_at(0, _write_on(leaver, at.partition))
        for node, client in nodes._clients.items():
            client.delay_s = 0.02 if node == hears_last else 0.001
        await asyncio.sleep(1)
        leaving = nodes.run_at(0, departure_of(leaver).leave(0, 10_000))
        await until(lambda: not leaver.node.shard_map.is_led(shard) or _serves(heirs, shard, at), step_s=0.001)
        began = loop.time()
        await until(lambda: _serves(heirs, shard, at), step_s=0.001)
        assert loop.time() - began < 0.06
        await asyncio.gather(leaving, writing)

    run_nodes(story, monkeypatch)


async def _write_on(broker: Broker, partition: int) -> None:
    """Until the node does not lead any more."""
    command = PublishMessages("t", [InputMessage(None, b"v", partition=partition)], Acks.ALL)
    while isinstance((await broker.publish.messages(command))[0], StoredAt):  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def _serves(brokers: Sequence[Broker], shard: int, at: TopicPartition) -> bool:
    led = [one for one in brokers if one.node.shard_map.is_led(shard)]
    return any(one.topics.require(at.topic).partition(at.partition).state.is_served for one in led)
