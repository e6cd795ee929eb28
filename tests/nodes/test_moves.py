"""Shards that move to other nodes while clients write, lease and read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from goqueue.api.cluster import MoveIn
from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import GoQueueError, InvalidField, LeaderChanged, MoveRefused, UnknownNode, UnknownShard
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.core.cluster.shard_choice import Placing
from goqueue.drive.topic_table import TopicTable
from goqueue.service.cluster_view import ClusterView
from goqueue.service.reassignment import Reassignments
from goqueue.wire import codes
from goqueue.wire.messages import alter_partition_reassignments as altering
from goqueue.wire.messages import list_partition_reassignments as listing
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_kafka import KafkaClient
from tests.nodes.test_queues import jobs, take
from tests.nodes.test_transactions import read


def moves_of(broker: Broker) -> Reassignments:
    view = ClusterView(broker.metadata.image, broker.node.identity.node_id, 2, {}, broker.lags, is_alone=False)
    return Reassignments(broker.metadata, view, broker.routed(broker.shard_sizes), is_alone=False)


def held_by(nodes: Nodes, node: int) -> list[int]:
    image = nodes.any.metadata.image
    return [shard for shard in image.shards() if node in image.shard(shard).replicas]


def high_watermark(nodes: Nodes, at: TopicPartition) -> int:
    return nodes.leader_of(at).topics.require(at.topic).partition(at.partition).high_watermark


def is_settled(nodes: Nodes) -> bool:
    return all(
        not record.target and set(record.in_sync) == set(record.replicas)
        for broker in nodes.brokers.values()
        for record in map(broker.metadata.image.shard, broker.metadata.image.shards())
    )


class Writer:
    """Writes one message after the other through one node, each until it is acknowledged."""

    def __init__(self, nodes: Nodes, node: int, at: TopicPartition) -> None:
        self._nodes = nodes
        self._node = node
        self._at = at
        self.written: list[str] = []
        self.begun = ""  # the last one: it may be there though it was never acknowledged
        self.unsure: list[str] = []  # written again: it may be there twice
        self.longest_s = 0.0
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            value, began = f"w{len(self.written)}", loop.time()
            self.begun = value
            broker = self._nodes.brokers[self._node]
            message = InputMessage(None, value.encode(), partition=self._at.partition)
            (result,) = await broker.routed(broker.publish).messages(PublishMessages(self._at.topic, [message]))
            if isinstance(result, GoQueueError):
                self.unsure += [value] * isinstance(result, LeaderChanged)
                continue
            self.written.append(value)
            self.longest_s = max(self.longest_s, loop.time() - began)
            await asyncio.sleep(0.01)

    def check(self, values: Sequence[str], before: int) -> None:
        """What a reader gets: everything acknowledged, once, in order, behind those that were there before."""
        assert not {one for one in values if values.count(one) > 1} - {*self.unsure}
        expected = [*(f"m{number}" for number in range(before)), *self.written]
        found = list(dict.fromkeys(values))
        assert found in (expected, [*expected, self.begun])

    async def stop(self) -> list[str]:
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled(), self._task.exception()
        return self.written


def test_a_node_is_drained_and_taken_out_while_clients_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await jobs(nodes, 0, 6)
        taken = await take(nodes, "g", at, 3)
        writer, moves = Writer(nodes, 1, at), moves_of(nodes.brokers[2])
        await asyncio.sleep(0.5)
        plan = await moves.plan(MoveIn(drain=0))
        assert {one.shard for one in plan.moves} == set(held_by(nodes, 0)) and not plan.is_begun
        assert not any(record.target for record in map(nodes.any.metadata.image.shard, range(6))), (
            "a plan begins nothing"
        )
        with pytest.raises(MoveRefused, match="drain it first"):
            await moves.remove(0)
        await moves.begin(MoveIn(drain=0))
        await until(lambda: not held_by(nodes, 0) and is_settled(nodes))
        assert await patiently(lambda: nodes.leader_of(at).leasing.ack([one.receipt for one in taken])) == [None] * 3
        await writer.stop()
        await until(lambda: high_watermark(nodes, at) >= len(writer.written) + 6)  # the new leader may learn of it late
        values = await patiently(lambda: read(nodes, at))
        writer.check(values, 6)
        assert writer.longest_s < 2
        await until(lambda: not any(partition.end_offset for _, partition in nodes.brokers[0].table.in_shard(0)))
        with pytest.raises(MoveRefused, match="stop it first"):
            await moves.remove(0)
        nodes.kill(0)
        await until(lambda: 0 not in nodes.any.metadata.image.nodes())
        await moves.remove(0)
        assert 0 not in nodes.any.metadata.image.members()
        writer.check(await patiently(lambda: read(nodes, at)), 6)

    run_nodes(story, monkeypatch, count=4)


@pytest.mark.parametrize("dies", ["the one that leads", "the one that is added", "the controller"])
def test_a_move_ends_whoever_dies_meanwhile(monkeypatch: pytest.MonkeyPatch, dies: str) -> None:
    async def story(nodes: Nodes) -> None:
        at = await jobs(nodes, 0, 200)
        image = nodes.any.metadata.image
        shard = nodes.any.topics.require("jobs").record.shard_of(at.partition)
        added = next(node for node in range(4) if node not in image.shard(shard).replicas)
        target = [added, *image.shard(shard).replicas[1:]]
        await moves_of(nodes.brokers[added]).begin(MoveIn(shards={shard: target}))
        controller = image.controller
        assert controller is not None
        dead = {"the one that leads": 0, "the one that is added": added, "the controller": controller.node}[dies]
        nodes.kill(dead)
        await asyncio.sleep(1)
        await nodes.start(dead)
        await until(lambda: is_settled(nodes))
        assert list(nodes.any.metadata.image.shard(shard).replicas) == target
        values = await patiently(lambda: read(nodes, at))
        assert values == [f"m{number}" for number in range(200)]

    run_nodes(story, monkeypatch, count=4)


def test_a_move_that_cannot_end_is_turned_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await jobs(nodes, 0, 5)
        image, moves = nodes.any.metadata.image, moves_of(nodes.any)
        before = image.shard(0).replicas
        (added,) = set(range(4)) - set(before)
        await moves.begin(MoveIn(shards={0: [*before[:2], added]}))
        nodes.kill(added)
        await asyncio.sleep(1)
        if image.shard(0).target:  # it may have arrived before
            (under_way,) = await moves.moves()
            assert under_way.shard == 0 and under_way.before == list(before)
            assert await moves.cancel([]) == [0]
            assert image.shard(0).replicas == before
        assert await moves.moves() == []

    run_nodes(story, monkeypatch, count=4)


def test_a_move_is_not_turned_back_to_fewer_than_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of those that had the shard are away: what is acknowledged meanwhile would be on the disk of one."""

    async def story(nodes: Nodes) -> None:
        at = await jobs(nodes, 0, 5)
        image, moves = nodes.brokers[0].metadata.image, moves_of(nodes.brokers[0])
        shard = nodes.any.topics.require("jobs").record.shard_of(at.partition)
        before = image.shard(shard).replicas
        added = sorted(set(range(5)) - set(before))
        await moves.begin(MoveIn(shards={shard: [*added, before[1]]}))
        nodes.kill(before[1])
        nodes.kill(before[2])
        await until(lambda: set(image.shard(shard).in_sync) == {0, *added})
        await nodes.brokers[0].publish.messages(
            PublishMessages("jobs", [InputMessage(None, b"x", partition=at.partition)])
        )
        with pytest.raises(MoveRefused, match="Too few of those who would keep"):
            await moves.cancel([shard])
        assert len(image.shard(shard).in_sync) == 3
        await nodes.start(before[2])
        await until(lambda: before[2] in image.shard(shard).in_sync)
        assert await moves.cancel([shard]) == [shard]
        assert image.shard(shard).replicas == before and len(image.shard(shard).in_sync) == 2

    run_nodes(story, monkeypatch, count=5)


def test_who_hears_late_that_a_shard_went_away_and_came_back_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts again by the time that it hears of the first."""

    async def story(nodes: Nodes) -> None:
        at = await jobs(nodes, 0, 20)
        image, moves = nodes.brokers[0].metadata.image, moves_of(nodes.brokers[0])
        shard = nodes.any.topics.require("jobs").record.shard_of(at.partition)
        before = image.shard(shard).replicas
        late, (other,) = before[2], set(range(4)) - set(before)
        log = nodes.brokers[late].topics.require("jobs").partition(at.partition).log
        nodes.hide_changes(late, True)
        for target in ([*before[:2], other], list(before)):
            await moves.begin(MoveIn(shards={shard: target}))
            await until(lambda target=target: list(image.shard(shard).replicas) == target)  # type: ignore[misc]
        assert late in image.shard(shard).in_sync and image.shard(shard).leader == 0
        nodes._clients[late].watch_gap_s = 0.05
        nodes.hide_changes(late, False)
        for _ in range(400):
            await asyncio.sleep(0.01)
            assert log.end_offset == 20 or late not in image.shard(shard).in_sync, "it counts, and has nothing"

    run_nodes(story, monkeypatch, count=4)


def test_copies_keep_to_a_throttle_that_can_be_changed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at, loop = await jobs(nodes, 0, 3), asyncio.get_running_loop()
        large = [InputMessage(None, bytes(100_000), partition=at.partition)] * 10
        for _ in range(8):
            await nodes.brokers[0].publish.messages(PublishMessages("jobs", large))
        image, moves = nodes.any.metadata.image, moves_of(nodes.any)
        shard = nodes.any.topics.require("jobs").record.shard_of(at.partition)
        (added,) = set(range(4)) - set(image.shard(shard).replicas)
        writer, began = Writer(nodes, 1, at), loop.time()
        target = [*image.shard(shard).replicas[:2], added]
        await moves.begin(MoveIn(shards={shard: target}, throttle=1_000_000))
        await asyncio.sleep(4)
        (under_way,) = await moves.moves()
        assert moves.throttled() == 1_000_000 and 0 < under_way.waits_for[added] < 1, under_way
        copy = under_way.copies[added]
        assert 2_000_000 < copy.bytes_left < 6_000_000 and copy.bytes_done + copy.bytes_left == under_way.bytes, copy
        assert 800_000 < copy.bytes_per_s < 1_300_000, "it keeps to the throttle"
        assert copy.seconds_left is not None and 2 < copy.seconds_left < 7, copy
        await until(lambda: is_settled(nodes))
        assert 7.2 < loop.time() - began < 10, "eight million bytes, and what is written meanwhile"
        await writer.stop()
        assert writer.longest_s < 0.5, "replicas that count are not held back"
        (left,) = set(under_way.before) - {*target}
        await until(lambda: not any(one.end_offset for _, one in nodes.brokers[left].table.in_shard(shard)))
        await moves.begin(MoveIn(shards={shard: list(under_way.before)}, throttle=1_000))
        await asyncio.sleep(2)
        assert await moves.moves(), "it would take hours"
        with pytest.raises(MoveRefused, match="is moving there already"):
            await moves.begin(MoveIn(shards={shard: list(under_way.before)}, throttle=5))
        assert moves.throttled() == 1_000, "nothing of what was refused is done"
        await moves.throttle(0)
        lifted = loop.time()
        await until(lambda: is_settled(nodes))
        assert moves.throttled() == 0 and loop.time() - lifted < 5

    run_nodes(story, monkeypatch, count=4)


def test_new_nodes_take_their_share_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at, moves = await jobs(nodes, 0, 20), moves_of(nodes.any)
        await moves.begin(MoveIn(drain=3))
        await until(lambda: not held_by(nodes, 3) and is_settled(nodes))
        planned = await moves.plan(MoveIn(rebalance=True))
        assert not any(3 in one.after for one in planned.moves), "a drained node gets nothing"
        with pytest.raises(MoveRefused, match="Node 3 is drained"):
            await moves.begin(MoveIn(shards={0: [3, 0, 1]}))
        await moves.fill(3)
        await moves.begin(MoveIn(rebalance=True))
        await until(lambda: is_settled(nodes))
        held = [len(held_by(nodes, node)) for node in range(4)]
        assert max(held) - min(held) <= 1, held
        assert len(await patiently(lambda: read(nodes, at))) == 20

    run_nodes(story, monkeypatch, count=4)


def drained(nodes: Nodes) -> list[int]:
    image = nodes.any.metadata.image
    return sorted(node for node in image.members() if (known := image.member(node)) and known.is_drained)


def test_of_two_drains_at_once_one_is_refused_where_both_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        asked = [moves_of(nodes.brokers[by]).begin(MoveIn(drain=[node])) for by, node in ((0, 2), (1, 3))]
        told = await asyncio.gather(*asked, return_exceptions=True)
        (refused,) = [one for one in told if isinstance(one, BaseException)]
        assert isinstance(refused, MoveRefused)
        await until(lambda: is_settled(nodes))
        (gone,) = drained(nodes)
        assert held_by(nodes, gone) == []

    run_nodes(story, monkeypatch, count=4)


def test_nodes_that_are_drained_together_get_nothing_from_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at, moves = await jobs(nodes, 0, 20), moves_of(nodes.any)
        for too_many in ([2, 3, 4], [2, 4, 3, 2]):
            with pytest.raises(MoveRefused, match="is to have 3 replicas, and only 2 nodes"):
                await moves.begin(MoveIn(drain=too_many))
        assert not drained(nodes) and not await moves.moves(), "nothing is begun"
        plan = await moves.plan(MoveIn(drain=[3, 4]))
        assert {one.shard for one in plan.moves} == {*held_by(nodes, 3), *held_by(nodes, 4)}
        assert all({*one.after} == {0, 1, 2} for one in plan.moves), "each moves once"
        await moves.begin(MoveIn(drain=[3, 4]))
        assert drained(nodes) == [3, 4]
        await until(lambda: not held_by(nodes, 3) and not held_by(nodes, 4) and is_settled(nodes))
        await moves.begin(MoveIn(drain=[0], fill=[4]))
        assert drained(nodes) == [0, 3], "a node that is filled in the same step counts for those that stay"
        await until(lambda: not held_by(nodes, 0) and is_settled(nodes))
        assert held_by(nodes, 4) == sorted(nodes.any.metadata.image.shards())
        assert len(await patiently(lambda: read(nodes, at))) == 20

    run_nodes(story, monkeypatch, count=5)


def test_what_cannot_be_done_is_refused_and_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        moves, image = moves_of(nodes.any), nodes.any.metadata.image
        cases: list[tuple[MoveIn, type[GoQueueError], str]] = [
            (MoveIn(), InvalidField, "one of the three"),
            (MoveIn(drain=1, rebalance=True), InvalidField, "one of the three"),
            (MoveIn(shards={99: [0, 1, 2]}), UnknownShard, "no shard 99"),
            (MoveIn(shards={0: [0, 1, 9]}), UnknownNode, "Node 9"),
            (MoveIn(shards={0: []}), InvalidField, "each named once"),
            (MoveIn(shards={0: [1, 1]}), InvalidField, "each named once"),
            (MoveIn(shards={0: [1]}), MoveRefused, "2 replicas in sync"),
            (MoveIn(drain=9), UnknownNode, "Node 9"),
            (MoveIn(drain=1), MoveRefused, "only 2 nodes"),
            (MoveIn(drain=[1, 2]), MoveRefused, "only 1 node could"),
            (MoveIn(drain=[0, 1, 2]), MoveRefused, "No node would be left"),
            (MoveIn(drain=[1, 9]), UnknownNode, "Node 9"),
            (MoveIn(drain=[1], fill=[9]), UnknownNode, "Node 9"),
            (MoveIn(drain=[1], fill=[1]), InvalidField, "beside others"),
            (MoveIn(rebalance=True, fill=[1]), InvalidField, "beside others"),
        ]
        for ask, error, words in cases:
            with pytest.raises(error, match=words):
                await moves.begin(ask)
        with pytest.raises(UnknownShard):
            await moves.cancel([99])
        for wrong in (moves.remove(9), moves.fill(9)):
            with pytest.raises(UnknownNode):
                await wrong
        assert all(not image.shard(shard).target for shard in image.shards())
        assert not drained(nodes)

    run_nodes(story, monkeypatch)


def test_a_node_may_go_if_the_others_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        moves = moves_of(nodes.brokers[1])
        assert moves.restart_safe(0).is_safe
        nodes.kill(2)
        await until(lambda: not moves.restart_safe(0).is_safe)
        assert any("would have 1 replicas in sync" in one for one in moves.restart_safe(0).reasons)
        with pytest.raises(UnknownNode):
            moves.restart_safe(7)

    run_nodes(story, monkeypatch)


def test_a_shard_that_is_left_of_a_topic_of_its_own_kind_keeps_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        moves = moves_of(nodes.any)
        await nodes.any.topics.create("single", 1, {}, placing=Placing(nodes=((1,),)))
        await nodes.until_known("single")
        assert [moves.restart_safe(node).is_safe for node in range(3)] == [True, False, True]
        await nodes.any.topics.delete("single")
        await until(lambda: moves.restart_safe(1).is_safe)
        nodes.kill(1)
        await until(lambda: not moves.restart_safe(0).is_safe)
        assert not any("shard 6 " in one for one in moves.restart_safe(0).reasons), "nor one that nobody leads"

    run_nodes(story, monkeypatch)


# --- as Kafka's tools ask ----------------------------------------------------------------------------------------


def reassign(
    places: Iterable[TopicPartition], replicas: list[int] | None
) -> altering.AlterPartitionReassignmentsRequest:
    parts = [altering.ReassignablePartition(at.partition, replicas) for at in places]
    return altering.AlterPartitionReassignmentsRequest(topics=[altering.ReassignableTopic("jobs", parts)])


def codes_of(answer: altering.AlterPartitionReassignmentsResponse) -> list[int]:
    return [one.error_code for topic in answer.responses for one in topic.partitions]


def test_kafkas_tools_move_whole_shards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("jobs", 12)
        kafka, image = KafkaClient(nodes, tmp_path), nodes.any.metadata.image
        record = nodes.any.topics.require("jobs").record
        places = [TopicPartition("jobs", number) for number in range(12) if record.shard_of(number) == 0]
        (added,) = set(range(4)) - set(image.shard(0).replicas)
        target = [added, *image.shard(0).replicas[:2]]
        assert len(places) > 1
        assert codes_of(await kafka.at(1, reassign(places[:1], target))) == [codes.INVALID_REPLICA_ASSIGNMENT]
        for wrong in ([0, 1, 9], [0, 0, 1], [0]):
            told = codes_of(await kafka.at(1, reassign(places, wrong)))
            assert told == [codes.INVALID_REPLICA_ASSIGNMENT] * len(places), "as Kafka says it of such nodes"
        unknown = [codes.UNKNOWN_TOPIC_OR_PARTITION]
        assert codes_of(await kafka.at(1, reassign([TopicPartition("jobs", 99)], target))) == unknown
        nothing = [codes.NO_REASSIGNMENT_IN_PROGRESS] * len(places)
        assert codes_of(await kafka.at(1, reassign(places, None))) == nothing
        assert codes_of(await kafka.at(1, reassign(places[:1], None))) == nothing[:1], "one is enough to hear so"
        assert codes_of(await kafka.at(1, reassign(places, target))) == [codes.NONE] * len(places)
        listed = await kafka.at(2, listing.ListPartitionReassignmentsRequest())
        for topic in listed.topics:  # it may have arrived
            assert {one.partition_index for one in topic.partitions} == {at.partition for at in places}
            assert all(list(one.adding_replicas) == [added] for one in topic.partitions)
        await until(lambda: is_settled(nodes))
        assert list(image.shard(0).replicas) == target
        assert (await kafka.at(2, listing.ListPartitionReassignmentsRequest())).topics == []

    run_nodes(story, monkeypatch, count=4)


def test_partitions_that_are_added_are_there_at_every_node_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("jobs", 1)
        catch_up = TopicTable.catch_up

        async def slowly(table: TopicTable) -> None:
            await asyncio.sleep(0.5)
            await catch_up(table)

        monkeypatch.setattr(TopicTable, "catch_up", slowly)
        await nodes.run_at(0, nodes.brokers[0].topics.alter("jobs", {}, 5))
        assert [len(one.topics.require("jobs").partitions) for one in nodes.brokers.values()] == [5, 5, 5]

    run_nodes(story, monkeypatch)
