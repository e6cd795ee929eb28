"""From one node to three: what the one has is there all the time, and the others get it."""

from __future__ import annotations

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.startup_errors import ForeignData, WrongNodeId
from goqueue.broker import Broker
from goqueue.sim.metadata import SimMetadataStore
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_moves import Writer, is_settled
from tests.nodes.test_transactions import read

AT = TopicPartition("jobs", 0)


async def begin_alone(broker: Broker) -> None:
    """Six messages, of which a group has leased three and done two; and more topics than go into one commit."""
    await broker.topics.create("jobs", 4, {})
    for number in range(120):
        await broker.topics.create(f"t{number}", 1, {})
    messages = [InputMessage(None, f"m{number}".encode(), partition=0) for number in range(6)]
    await broker.publish.messages(PublishMessages("jobs", messages))
    taken = await broker.leasing.take(Take("g", [AT], "me", 3, 600_000))
    assert await broker.leasing.ack([one.receipt for one in taken[:2]]) == [None, None]


def test_a_node_that_was_alone_becomes_the_first_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.alone(0, begin_alone)
        await nodes.start(0)
        await nodes.until_led()
        assert len([one for one in nodes.any.topics.all() if not one.is_internal]) == 121
        writer = Writer(nodes, 0, AT)
        await nodes.start(1)
        await nodes.start(2)
        image = nodes.any.metadata.image
        await until(lambda: all(len(image.shard(one).in_sync) == 3 for one in image.shards()) and is_settled(nodes))
        await until(lambda: {image.shard(one).leader for one in image.shards()} == {0, 1, 2})
        written = await writer.stop()
        assert written
        nodes.kill(0)
        await until(lambda: 0 not in nodes.any.metadata.image.nodes())
        await nodes.until_led()
        values = await patiently(lambda: read(nodes, AT))
        writer.check(values, 6)
        left = await patiently(lambda: nodes.leader_of(AT).leasing.take(Take("g", [AT], "other", 2, 60_000)))
        assert [one.stored.offset for one in left] == [3, 4], "two are done, and one is leased"

    run_nodes(story, monkeypatch, is_started=False)


def test_a_node_with_data_of_its_own_is_refused_by_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.alone(0, begin_alone)
        await nodes.alone(1, begin_alone)
        await nodes.start(0)
        await nodes.until_led()
        with pytest.raises(ForeignData, match="begins with an empty directory"):
            await nodes.start(1)

    run_nodes(story, monkeypatch, is_started=False)


def test_a_node_of_a_cluster_does_not_start_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.alone(0, begin_alone)
        await nodes.start(0)
        await nodes.until_led()
        nodes.kill(0)
        with pytest.raises(ForeignData, match="settings"):
            await nodes.alone(0, begin_alone)

    run_nodes(story, monkeypatch, is_started=False)


def test_a_node_of_a_cluster_begins_no_other_one_where_the_store_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 1)
        for node in range(3):
            nodes.kill(node, "kept")
        store, nodes.store = nodes.store, SimMetadataStore()
        with pytest.raises(ForeignData, match="the store has no cluster"):
            await nodes.start(0)
        nodes.store = store
        await nodes.start_all()
        assert nodes.any.topics.find("t") is not None, "nothing was changed"

    run_nodes(story, monkeypatch)


def test_nor_does_the_first_node_of_one_bring_what_it_knew_when_it_was_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is of long ago: topics that were made since are not in it."""

    async def story(nodes: Nodes) -> None:
        await nodes.alone(0, begin_alone)
        await nodes.start(0)
        await nodes.until_led()
        await nodes.create("later", 1)
        nodes.kill(0, "kept")
        store, nodes.store = nodes.store, SimMetadataStore()
        with pytest.raises(ForeignData, match="the store has no cluster"):
            await nodes.start(0)
        nodes.store = store
        await nodes.start(0)
        await nodes.until_led()
        assert nodes.any.topics.find("later") is not None

    run_nodes(story, monkeypatch, is_started=False)


def test_a_copy_of_a_nodes_directory_does_not_take_its_place_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        start = nodes.any.metadata.image.nodes()[1].incarnation
        with pytest.raises(WrongNodeId, match="at node1:7000, and this data directory is a copy"):
            await nodes.start_copy(1, "elsewhere:7000")
        assert nodes.any.metadata.image.nodes()[1].incarnation == start
        nodes.kill(1)
        await nodes.start(1)

    run_nodes(story, monkeypatch)


def test_an_interrupted_start_brings_everything_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.alone(0, begin_alone)
        commit, done = nodes.store.commit, 0

        def fails_in_the_middle(*args: object, **named: object) -> int:
            nonlocal done
            done += 1
            if done == 2:
                raise ForeignData("the store fails here")
            return commit(*args, **named)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(nodes.store, "commit", fails_in_the_middle)
            with pytest.raises(ForeignData, match="fails here"):
                await nodes.start(0)
        nodes.kill(0)
        await nodes.start(0)
        await nodes.until_led()
        assert len([one for one in nodes.any.topics.all() if not one.is_internal]) == 121
        assert await patiently(lambda: read(nodes, AT)) == [f"m{number}" for number in range(6)]

    run_nodes(story, monkeypatch, is_started=False)
