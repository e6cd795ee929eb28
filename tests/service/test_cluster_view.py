"""What operators are told about a cluster, and what a node that is alone says of itself."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from goqueue.api.cluster import ClusterNode, ReplicationLag
from goqueue.base.errors import UnknownTopic
from goqueue.base.metadata import Change, Entry
from goqueue.base.replication import LogKey
from goqueue.base.settings import load_settings
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import (
    NOBODY,
    ClusterRecord,
    ControllerRecord,
    MemberRecord,
    NodeRecord,
    ShardRecord,
    TopicRecord,
    encode,
)
from goqueue.core.replication.leader import FetchedLog, FollowerLag, InSyncRule, Replica, ShardLeader
from goqueue.service.cluster_metrics import ClusterCollector, LeaderChanges
from goqueue.service.cluster_view import ClusterView, NoFollowers, condition_of
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on


class Told:
    """An image, and what is put into it."""

    def __init__(self) -> None:
        self.image = Image()
        self.changes = LeaderChanges(self.image)

    def put(self, **records: msgspec.Struct) -> None:
        revision = self.image.revision + 1
        keys = {name.replace("_", "/"): record for name, record in records.items()}
        change = Change(revision, [Entry(key, encode(record), revision, revision) for key, record in keys.items()])
        self.image.apply(change)
        self.changes.metadata_changed(change)

    def delete(self, key: str) -> None:
        self.image.apply(Change(self.image.revision + 1, deletes=[key]))


class Lags:
    is_held = True

    def lags(self) -> Mapping[int, Mapping[int, FollowerLag]]:
        return {0: {1: FollowerLag(7, 250), 2: FollowerLag(0, 0)}}


def node(number: int) -> NodeRecord:
    addresses = {"rest": f"10.0.0.{number}:8080", "kafka": f"10.0.0.{number}:9092", "node": f"10.0.0.{number}:7000"}
    return NodeRecord("1.2", f"start-{number}", addresses, f"rack-{number}")


def three_nodes() -> Told:
    told = Told()
    told.put(
        cluster=ClusterRecord("the-cluster"),
        controller=ControllerRecord(1, "start-1"),
        nodes_0=node(0),
        nodes_1=node(1),
        nodes_2=node(2),
        members_0=MemberRecord("d0"),
        members_1=MemberRecord("d1"),
        members_2=MemberRecord("d2"),
        shards_0=ShardRecord(0, 4, (0, 1, 2), (0, 1, 2)),
        shards_1=ShardRecord(1, 2, (1, 2, 0), (1, 2, 0)),
        topics_orders=TopicRecord("orders", "id", 2, {}, 1, shards=(0, 1)),
    )
    return told


def view(told: Told) -> ClusterView:
    return ClusterView(told.image, 0, 2, {"sqs": "http://10.0.0.0:9324"}, Lags(), is_alone=False)


def test_all_is_well() -> None:
    state = view(three_nodes()).state()
    assert (state.cluster_id, state.node, state.controller, state.status) == ("the-cluster", 0, 1, "ok")
    assert [(one.shard, one.condition, one.leader, one.epoch) for one in state.shards] == [
        (0, "ok", 0, 4),
        (1, "ok", 1, 2),
    ]
    assert state.nodes[1] == ClusterNode(
        1,
        "alive",
        is_controller=True,
        leads=1,
        follows=1,
        in_sync=2,
        version="1.2",
        rack="rack-1",
        incarnation="start-1",
        addresses={"rest": "http://10.0.0.1:8080", "kafka": "10.0.0.1:9092", "node": "10.0.0.1:7000"},
    )
    assert state.nodes[0].addresses["sqs"] == "http://10.0.0.0:9324"
    health = view(three_nodes()).health()
    assert (health.status, health.nodes_alive, health.nodes_gone, health.shards) == ("ok", 3, 0, 2)
    assert health.problems == []


def test_a_node_that_lost_its_session_does_not_say_that_all_is_well() -> None:
    told = three_nodes()
    lags = Lags()
    lags.is_held = False
    cut_off = ClusterView(told.image, 0, 2, {}, lags, is_alone=False)
    health = cut_off.health()
    assert (health.status, cut_off.state().status, health.offline) == ("unavailable", "unavailable", 0)
    assert health.problems[0].startswith("the node that was asked is not registered with the metadata store")


def test_followers_that_are_behind_are_told_where_it_is_known() -> None:
    shards = view(three_nodes()).shards()
    assert shards[0].lag == {1: ReplicationLag(7, 250), 2: ReplicationLag(0, 0)}
    assert shards[1].lag == {}


def test_a_node_that_is_gone_is_still_a_member_and_its_shards_are_offline_until_another_leads() -> None:
    told = three_nodes()
    told.delete("nodes/1")
    told.delete("controller")
    health = view(told).health()
    assert (health.status, health.nodes_gone, health.offline) == ("unavailable", 1, 1)
    assert health.problems == ["node 1 is gone", "there is no controller", "nobody leads: shard 1"]
    told.put(shards_0=ShardRecord(0, 4, (0, 1, 2), (0, 2)), shards_1=ShardRecord(2, 3, (1, 2, 0), (2, 0)))
    told.put(controller=ControllerRecord(0, "start-0"))
    health = view(told).health()
    assert (health.status, health.offline, health.under_replicated, health.at_minimum) == ("degraded", 0, 2, 2)
    assert health.problems[1:] == [
        "just enough replicas in sync: the next that is lost stops writes with acks=all: shards 0, 1"
    ]
    gone = view(told).nodes()[1]
    assert (gone.state, gone.leads, gone.follows, gone.in_sync, gone.addresses) == ("gone", 0, 2, 0, {})


def test_a_topic_that_asks_for_more_replicas_makes_its_shards_stricter() -> None:
    told = three_nodes()
    told.put(topics_strict=TopicRecord("strict", "id-2", 1, {"min.insync.replicas": "3"}, 1, shards=(1,)))
    told.put(shards_1=ShardRecord(1, 2, (1, 2, 0), (1, 2)))
    shards = view(told).shards()
    assert [(one.min_in_sync, one.condition) for one in shards] == [(2, "ok"), (3, "below-minimum")]
    assert view(told).health().status == "unavailable"


@pytest.mark.parametrize(
    ("in_sync", "leader", "minimum", "condition"),
    [
        ((0, 1, 2), 0, 2, "ok"),
        ((0, 1), 0, 2, "at-minimum"),
        ((0, 1), 0, 1, "under-replicated"),
        ((0,), 0, 2, "below-minimum"),
        ((0, 1, 2), 0, 3, "ok"),
        ((0, 1, 2), None, 2, "offline"),
    ],
)
def test_the_condition_of_a_shard(in_sync: tuple[int, ...], leader: int | None, minimum: int, condition: str) -> None:
    record = ShardRecord(NOBODY if leader is None else leader, 1, (0, 1, 2), in_sync)
    assert condition_of(record, leader, minimum) == condition


def test_where_partitions_are() -> None:
    metadata = view(three_nodes()).metadata("orders")
    assert [one.name for one in metadata.topics] == ["orders"]
    assert [(one.partition, one.shard, one.leader) for one in metadata.topics[0].partitions] == [(0, 0, 0), (1, 1, 1)]
    assert metadata.topics[0].partitions[1].replicas == [1, 2, 0]
    with pytest.raises(UnknownTopic):
        view(three_nodes()).metadata("nothing")


def test_metrics_are_of_what_this_node_leads() -> None:
    told = three_nodes()
    told.put(shards_0=ShardRecord(0, 5, (0, 1, 2), (0, 2)), shards_1=ShardRecord(2, 3, (1, 2, 0), (2,)))
    told.put(shards_1=ShardRecord(2, 3, (1, 2, 0), (2, 0)))
    collector = ClusterCollector(view(told), told.changes)
    names = {one.name for one in collector.collect()}
    assert names == {"goqueue_cluster_leader_changes", "goqueue_cluster_unclean_elections"}
    collector.look()
    samples = {(one.name, *one.labels.values()): one.value for family in collector.collect() for one in family.samples}
    prefix = "goqueue_cluster_"
    assert {name.removeprefix(prefix): value for (name, *labels), value in samples.items() if not labels} == {
        "leader_changes_total": 2,
        "unclean_elections_total": 0,
        "is_controller": 0,
        "shards_led": 1,
        "shards_followed": 1,
        "under_replicated": 1,
        "at_minimum": 1,
        "below_minimum": 0,
        "offline": 0,
    }
    assert samples[f"{prefix}nodes", "alive"] == 3
    assert (samples[f"{prefix}replicas", "0"], samples[f"{prefix}in_sync_replicas", "0"]) == (3, 2)
    assert samples[f"{prefix}replication_lag_messages", "0", "1"] == 7
    assert samples[f"{prefix}replication_lag_seconds", "0", "1"] == 0.25


def test_a_leader_knows_how_far_each_follower_is_behind() -> None:
    record = ShardRecord(0, 1, (0, 1, 2), (0, 1), starts={0: "a", 1: "b"})
    leader = ShardLeader(Replica(0, "a"), record, 1, InSyncRule(False, 1_000, 1_000), 0)
    log = LogKey("orders", 0)
    leader.open_log(log, 10, 10, 0, 1)
    leader.fetched(Replica(1, "b"), {log: FetchedLog(10, 10)}, 1_000)
    leader.fetched(Replica(2, "old"), {log: FetchedLog(2, 2)}, 1_000)
    leader.fetched(Replica(2, "new"), {log: FetchedLog(10, 10)}, 1_500)
    leader.appended(log, 15)
    assert leader.lags(2_000) == {1: (5, 1_000), 2: (5, 500)}
    leader.fetched(Replica(1, "b"), {log: FetchedLog(15, 15)}, 2_100)
    assert leader.lags(2_200)[1] == (0, 0)


def test_a_node_that_is_alone_is_a_cluster_of_one() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            alone = ClusterView(broker.metadata.image, 0, 1, {}, NoFollowers(), is_alone=True)
            health = alone.health()
            assert (health.status, health.nodes_alive, health.problems) == ("ok", 1, [])
            assert alone.state().controller == 0
            assert {one.condition for one in alone.shards()} == {"ok"}
            assert [check.name for check in broker.health.checks()] == ["running", "disk space", "logs"]

    run_virtually(scenario)


@pytest.mark.parametrize(
    ("flags", "minimum"),
    [
        ({}, 1),
        ({"cluster.replication_factor": "1"}, 1),
        ({"cluster.store": "etcd://a:1"}, 2),
        ({"cluster.store": "etcd://a:1", "cluster.replication_factor": "1"}, 1),
        ({"cluster.store": "etcd://a:1", "cluster.min_insync_replicas": "1"}, 1),
        ({"cluster.store": "etcd://a:1", "cluster.min_insync_replicas": "3"}, 3),
    ],
)
def test_two_replicas_have_to_be_in_sync_where_there_are_two(flags: dict[str, str], minimum: int) -> None:
    assert load_settings(None, {}, flags).cluster.min_insync_default == minimum
