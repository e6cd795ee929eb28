"""The image of the metadata: what it answers, and how it follows the store."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter

import msgspec
import pytest

from goqueue.base.errors import NotLeader
from goqueue.base.limits import ID_SLOTS
from goqueue.base.metadata import Commit
from goqueue.base.startup_errors import FewerShards, WrongNodeId
from goqueue.core.cluster.image import Image, slot_of
from goqueue.core.cluster.placement import placed, shards_for
from goqueue.core.cluster.records import (
    ChangedSettings,
    ClusterRecord,
    NodeRecord,
    ReservedIds,
    ShardRecord,
    TopicRecord,
    encode,
)
from goqueue.core.cluster.store_state import StoreState


class Store:
    """A store and an image that follows it."""

    def __init__(self) -> None:
        self.state = StoreState()
        self.image = Image()

    def commit(self, commit: Commit | None) -> None:
        if commit is not None:
            change = self.state.decide(commit)
            self.state.apply(change)
            self.image.apply(change)

    def put(self, key: str, record: msgspec.Struct) -> None:
        self.commit(Commit({key: encode(record)}))

    def create(self, name: str, partitions: int) -> TopicRecord:
        record = placed(self.image, TopicRecord(name, f"id-{name}", partitions, {}, 1)).record
        self.put(f"topics/{name}", record)
        return record


def topic(name: str, partitions: int = 1, **changes: object) -> TopicRecord:
    return msgspec.structs.replace(TopicRecord(name, f"id-{name}", partitions, {}, 1), **changes)


def with_shards(count: int, node_id: int = 0) -> Store:
    store = Store()
    store.commit(shards_for(store.image, node_id, count))
    return store


def test_topics_are_found_by_name_and_by_id_until_they_are_deleted() -> None:
    store = Store()
    store.put("topics/b", topic("b", 2))
    store.put("topics/a", topic("a"))
    assert [one.name for one in store.image.topics()] == ["a", "b"]
    assert store.image.topic_name("id-b") == "b" and store.image.topic("b") == topic("b", 2)
    store.put("topics/b", topic("b", 3, id="new"))
    assert (store.image.topic_name("id-b"), store.image.topic_name("new")) == (None, "b")
    store.commit(Commit(deletes=["topics/b"]))
    assert store.image.topic("b") is None and store.image.topic_name("new") is None


def test_a_shard_has_a_leader_an_epoch_and_replicas() -> None:
    store = Store()
    with pytest.raises(NotLeader):
        store.image.shard(0)
    store.put("shards/0", ShardRecord(2, 7, (1, 2), (2,), (1,)))
    assert store.image.shard(0).leader == 2 and store.image.epoch(0) == 7
    assert store.image.shard(0).replicas == (1, 2) and store.image.shard(0).eligible == (1,)


def test_the_rest_is_known_too() -> None:
    store = Store()
    assert (store.image.cluster_id, store.image.producer_ids_below, store.image.settings()) == ("", 0, {})
    store.put("cluster", ClusterRecord("c"))
    store.put("producer-ids/next", ReservedIds(3_000))
    store.put("settings/cluster", ChangedSettings({"a": "1"}))
    store.put("settings/4", ChangedSettings({"b": "2"}))
    store.put("nodes/4", NodeRecord("1.0", "x", {"kafka": "h:1"}))
    image = store.image
    assert (image.cluster_id, image.producer_ids_below) == ("c", 3_000)
    assert (image.settings(), image.settings("4")) == ({"a": "1"}, {"b": "2"})
    assert image.nodes() == {4: NodeRecord("1.0", "x", {"kafka": "h:1"})}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topics/a", "not JSON"),
        ("topics/a", "{}"),
        ("topics/a", encode(topic("b"))),
        ("topics/a", encode(topic("a", 0))),
        ("shards/x", encode(ShardRecord(0, 0, (0,), (0,)))),
        ("slots", '{"shards":[]}'),
        ("later/things", "{}"),
    ],
)
def test_what_it_cannot_read_is_named_and_does_no_harm(key: str, value: str) -> None:
    store = Store()
    store.commit(Commit({key: value, "topics/good": encode(topic("good"))}))
    assert store.image.unreadable == {key}
    assert [one.name for one in store.image.topics()] == ["good"] and store.image.shards() == []
    store.commit(Commit(deletes=[key]))
    assert store.image.unreadable == set()


def test_following_change_by_change_and_reading_all_come_to_the_same() -> None:
    chance = random.Random(13)
    store, late = with_shards(4), Image()
    for step in range(400):
        name = f"t{chance.randrange(20)}"
        known = store.image.topic(name)
        if known is None:
            store.create(name, chance.randrange(1, 9))
        elif chance.random() < 0.5:
            store.commit(Commit(deletes=[f"topics/{name}"]))
        else:
            more = msgspec.structs.replace(known, partitions=12)
            store.put(f"topics/{name}", placed(store.image, more).record)
        if step % 9 == 0:
            late.load(store.state.read())
        assert late.revision <= store.image.revision
    late.load(store.state.read())
    for image in (late, store.image):
        held = Counter(one.shard_of(number) for one in image.topics() for number in range(one.partitions))
        assert {shard: image.partitions_in(shard) for shard in range(4)} == {shard: held[shard] for shard in range(4)}
    assert late.topics() == store.image.topics() and late.revision == store.image.revision


def test_reading_all_tells_what_was_new() -> None:
    store, late = Store(), Image()
    store.put("topics/a", topic("a"))
    store.put("topics/b", topic("b"))
    late.load(store.state.read())
    store.put("topics/b", topic("b", 2))
    store.commit(Commit(deletes=["topics/a"]))
    change = late.load(store.state.read())
    assert [one.key for one in change.puts] == ["topics/b"] and list(change.deletes) == ["topics/a"]


# --- placement ------------------------------------------------------------------------------------------


def test_partitions_are_placed_evenly() -> None:
    store = with_shards(8)
    for number in range(50):
        store.create(f"t{number}", 1 + number % 5)
    held = [store.image.partitions_in(shard) for shard in range(8)]
    assert max(held) - min(held) <= 1


def test_added_partitions_are_placed_and_the_others_stay() -> None:
    store = with_shards(3)
    before = store.create("t", 4)
    after = placed(store.image, msgspec.structs.replace(before, partitions=7)).record
    assert after.shards[:4] == before.shards and len(after.shards) == 7
    assert len(set(after.shards)) == 3


def test_partitions_of_a_topic_that_was_made_before_there_were_shards_are_in_shard_0() -> None:
    store = Store()
    store.put("topics/old", topic("old", 3))
    store.commit(shards_for(store.image, 0, 4))
    assert store.image.partitions_in(0) == 3
    more = placed(store.image, topic("old", 5)).record
    assert more.shards[:3] == (0, 0, 0) and 0 not in more.shards[3:]


def test_ids_are_shared_out_evenly_by_a_first_start() -> None:
    store = with_shards(8)
    held = Counter(store.image.shard_of_id(f"group-{number}") for number in range(8_000))
    assert set(held) == set(range(8)) and min(held.values()) > 700


def test_where_an_id_belongs_never_changes() -> None:
    """Pinned: another hash would leave every group and transaction behind."""
    assert [slot_of(one, 1_024) for one in ("", "g", "orders", "ünïcode")] == [0, 886, 494, 170]
    assert ID_SLOTS == 1_024


def test_shards_can_be_added_and_move_nobody() -> None:
    store = with_shards(3)
    store.create("t", 9)
    ids = [f"id-{number}" for number in range(500)]
    before = [store.image.shard_of_id(one) for one in ids]
    record = store.image.topic("t")
    store.commit(shards_for(store.image, 0, 8))
    assert store.image.shards() == list(range(8))
    assert [store.image.shard_of_id(one) for one in ids] == before and store.image.topic("t") == record
    assert shards_for(store.image, 0, 8) is None
    assert set(store.create("u", 5).shards) == {3, 4, 5, 6, 7}


def test_all_ids_of_a_node_without_shards_stay_in_the_first() -> None:
    store = Store()
    store.put("topics/old", topic("old"))
    store.commit(shards_for(store.image, 0, 8))
    assert {store.image.shard_of_id(f"id-{number}") for number in range(100)} == {0}


def test_shards_cannot_be_taken_away() -> None:
    store = with_shards(8)
    with pytest.raises(FewerShards, match="8 shards"):
        shards_for(store.image, 0, 7)


def test_the_data_of_another_node_is_not_taken_over() -> None:
    store = with_shards(2, node_id=5)
    assert {store.image.shard(number).leader for number in (0, 1)} == {5}
    with pytest.raises(WrongNodeId, match="node 5"):
        shards_for(store.image, 0, 2)


def test_a_shard_that_changes_is_never_gone_in_between() -> None:
    """Threads that open partitions ask who leads while the image changes."""
    store = with_shards(1)
    image, missing = store.image, threading.Event()
    stopping = threading.Event()

    def ask() -> None:
        while not stopping.is_set():
            try:
                image.shard(0)
            except NotLeader:
                missing.set()

    asking = threading.Thread(target=ask)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    asking.start()
    for epoch in range(2_000):
        store.put("shards/0", ShardRecord(0, epoch, (0,), (0,)))
    stopping.set()
    asking.join()
    sys.setswitchinterval(interval)
    assert not missing.is_set()
    assert image.epoch(0) == 1_999
