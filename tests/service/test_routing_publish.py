"""Publishing through any node: each message is stored once, where its partition is led."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import (
    DeduplicationScope,
    InputMessage,
    OnceMessage,
    PublishedOnce,
    PublishMessages,
    PublishOnce,
    ScheduledAt,
    StoredAt,
)
from goqueue.base.errors import GoQueueError, NotLeader, PeerLost, PeerOutOfReach, UnknownPartition, UnknownTopic
from goqueue.base.limits import ROUTED_S
from goqueue.base.sqs_envelope import Envelope
from tests.service.brokers import fetch, fetch_all
from tests.service.nodes import SHARD_COUNT, Nodes, nodes_story, send, to


def test_messages_of_one_publish_go_to_all_leaders_and_are_answered_in_order() -> None:
    async def story(nodes: Nodes) -> None:
        for number, broker in enumerate(nodes.brokers):
            partitions = [5, 0, 3, 3, 1, 2, 4]
            results = await send(broker, "t", *(to(one, f"{number}-{place}") for place, one in enumerate(partitions)))
            assert all(isinstance(one, StoredAt) for one in results)
            assert [one.partition for one in results if isinstance(one, StoredAt)] == partitions
        for node, found in nodes.stored("t").items():
            assert sorted(found) == [at.partition for at in nodes.led_by(node, "t")]
        assert sum(sum(found.values()) for found in nodes.stored("t").values()) == 21

    nodes_story(story)


def test_messages_of_a_key_stay_in_order_whichever_nodes_they_come_in_through() -> None:
    async def story(nodes: Nodes) -> None:
        for number in range(60):
            message = InputMessage(f"k{number % 7}".encode(), str(number).encode())
            await send(nodes.brokers[number % 3], "t", message)
        seen: dict[bytes | None, list[int]] = {}
        for at in nodes.places("t"):
            for one in await fetch_partition(nodes, at.partition):
                seen.setdefault(one[0], []).append(int(one[1]))
        assert len(seen) == 7 and sum(map(len, seen.values())) == 60
        assert all(values == sorted(values) for values in seen.values())

    nodes_story(story)


async def fetch_partition(nodes: Nodes, partition: int) -> list[tuple[bytes | None, bytes]]:
    at = nodes.places("t")[partition]
    broker = nodes.brokers[nodes.leader(at)]
    return [(one.key, one.value or b"") for one in await fetch(broker, "t", 0, partition=partition)]


def test_messages_without_a_key_are_spread_by_the_node_that_took_them_in() -> None:
    async def story(nodes: Nodes) -> None:
        placed = set()
        for number in range(SHARD_COUNT):
            (stored,) = await send(nodes.brokers[0], "t", InputMessage(None, b"%d" % number))
            assert isinstance(stored, StoredAt)
            placed.add(stored.partition)
        assert placed == set(range(SHARD_COUNT))

    nodes_story(story)


def test_a_delayed_message_waits_at_the_node_that_leads_its_partition() -> None:
    async def story(nodes: Nodes) -> None:
        at = nodes.led_by(2, "t")[0]
        (one,) = await send(nodes.brokers[0], "t", InputMessage(None, b"later", partition=at.partition, delay_ms=5_000))
        assert isinstance(one, ScheduledAt) and one.partition == at.partition
        pending = [broker.scheduling.pending("t") for broker in nodes.brokers]
        assert pending == [0, 0, 1]
        front = nodes.brokers[1].routed(nodes.brokers[1].scheduling)
        assert await front.pending("t") == 1  # type: ignore[misc]
        (shown,) = await front.list("t", 10)
        assert (shown.partition, shown.offset) == (one.partition, one.offset)
        assert (await front.show("t", one.partition, one.offset)).due_ms == one.deliver_at_ms
        await front.cancel("t", one.partition, one.offset)
        assert await front.list("t", 10) == []

    nodes_story(story)


def test_mistakes_are_told_with_the_place_in_the_whole_request() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("small", SHARD_COUNT, {"max.message.bytes": 1_000})
        too_large = InputMessage(None, b"x" * 3_000, partition=nodes.led_by(1, "small")[0].partition)
        results = await send(nodes.brokers[0], "small", to(0, "a"), to(99, "b"), to(1, "c"), too_large)
        assert isinstance(results[0], StoredAt) and isinstance(results[2], StoredAt)
        assert isinstance(results[1], UnknownPartition) and results[1].field == "messages[1].partition"
        assert isinstance(results[3], GoQueueError) and results[3].field == "messages[3].value"
        with pytest.raises(UnknownTopic):
            await send(nodes.brokers[0], "nowhere", to(0, "a"))

    nodes_story(story)


def test_a_leader_that_moves_is_found_again_and_nothing_is_stored_twice() -> None:
    async def story(nodes: Nodes) -> None:
        at = nodes.led_by(1, "t")[0]
        nodes.move(at, 2, told=[1, 2])  # node 0 does not know yet
        other = nodes.led_by(0, "t")[0]
        sending = asyncio.ensure_future(send(nodes.brokers[0], "t", to(at.partition, "a"), to(other.partition, "b")))
        await asyncio.sleep(0.5)
        assert not sending.done()
        nodes.move(at, 2, told=[0])
        results = await sending
        assert all(isinstance(one, StoredAt) for one in results)
        assert [at.partition in found for found in nodes.stored("t").values()] == [False, False, True]
        assert len(await fetch_all_of(nodes, 2, at.partition)) == 1

    nodes_story(story)


async def fetch_all_of(nodes: Nodes, node: int, partition: int) -> list[object]:
    return list(await fetch(nodes.brokers[node], "t", 0, partition=partition))


def test_the_node_that_was_asked_may_itself_have_lost_the_partition() -> None:
    async def story(nodes: Nodes) -> None:
        at = nodes.led_by(0, "t")[0]
        asyncio.get_running_loop().call_later(0.3, nodes.move, at, 1)
        nodes.lead(nodes.brokers[0], {nodes.brokers[0].node.shard_map.of_partition(at): -1})
        (stored,) = await send(nodes.brokers[0], "t", to(at.partition, "a"))
        assert isinstance(stored, StoredAt)
        assert nodes.stored("t")[1] == {at.partition: 1}

    nodes_story(story)


def test_a_node_that_is_gone_is_told_within_the_time_for_it_and_the_others_go_on() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.gone.add(1)
        there, elsewhere = nodes.led_by(1, "t")[0].partition, nodes.led_by(2, "t")[0].partition
        began = nodes.loop.time()
        results = await send(nodes.brokers[0], "t", to(there, "a"), to(elsewhere, "b"))
        assert nodes.loop.time() - began <= ROUTED_S + 0.5
        assert isinstance(results[0], PeerOutOfReach) and isinstance(results[1], StoredAt)

    nodes_story(story)


def test_a_message_whose_fate_is_unknown_is_not_sent_again() -> None:
    async def story(nodes: Nodes) -> None:
        nodes.deaf.add(1)
        at = nodes.led_by(1, "t")[0]
        (lost,) = await send(nodes.brokers[0], "t", to(at.partition, "a"))
        assert isinstance(lost, PeerLost)
        assert len(await fetch_all_of(nodes, 1, at.partition)) == 1

    nodes_story(story)


def test_a_deduplicated_publish_of_unknown_fate_is_sent_again_and_stored_once() -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("q", 1)
        nodes.spread()
        home = nodes.leader(nodes.places("q")[0])
        front = nodes.brokers[(home + 1) % 3]
        nodes.deaf.add(home)
        asyncio.get_running_loop().call_later(0.2, nodes.deaf.clear)
        envelope = Envelope(id="one", sent_ms=front.clock.now_ms(), sender="me", deduplication_id="d")
        once = OnceMessage(InputMessage(b"g", b"a"), envelope)
        (found,) = await front.routed(front.publish_once).messages(PublishOnce(DeduplicationScope("q"), [once]))
        assert isinstance(found, PublishedOnce) and found.message_id == "one"
        assert len(await fetch_all(nodes.brokers[home], "q", 0)) == 1
        other = nodes.brokers[(home + 2) % 3]
        (again,) = await other.routed(other.publish_once).messages(PublishOnce(DeduplicationScope("q"), [once]))
        assert again == found

    nodes_story(story)


def test_everybody_who_waits_for_a_leader_is_told_when_there_is_none() -> None:
    async def story(nodes: Nodes) -> None:
        at = nodes.places("t")[0]
        nodes.move(at, -1)
        (failed,) = (
            await nodes.brokers[1]
            .routed(nodes.brokers[1].publish)
            .messages(PublishMessages("t", [to(at.partition, "a")]))
        )
        assert isinstance(failed, NotLeader)

    nodes_story(story)
