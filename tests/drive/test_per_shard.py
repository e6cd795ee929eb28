"""Which shard has what: remembered of what is there, never of names that clients make up."""

from __future__ import annotations

import tracemalloc

from goqueue.base.ids import TopicPartition
from goqueue.base.metadata import Change, Entry
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import SLOTS, TOPICS, SlotTable, TopicRecord, encode
from goqueue.drive.per_shard import ShardMap


def told(image: Image, shards: ShardMap, key: str, value: str) -> None:
    change = Change(image.revision + 1, [Entry(key, value, 1, image.revision + 1)], [])
    image.apply(change)
    shards.metadata_changed(change)


def topic(*shards: int) -> str:
    return encode(TopicRecord("t", "id", len(shards), {}, 0, shards=shards))


def made() -> tuple[Image, ShardMap]:
    image = Image()
    shards = ShardMap(image)
    told(image, shards, SLOTS, encode(SlotTable(tuple(range(8)))))
    told(image, shards, TOPICS + "t", topic(3, 5))
    return image, shards


def test_a_partition_is_where_its_topic_says_also_after_that_changed() -> None:
    image, shards = made()
    assert [shards.of_partition(TopicPartition("t", number)) for number in (0, 1, 0, 1)] == [3, 5, 3, 5]
    told(image, shards, TOPICS + "t", topic(4, 5, 6))
    assert [shards.of_partition(TopicPartition("t", number)) for number in range(3)] == [4, 5, 6]
    gone = Change(image.revision + 1, [], [TOPICS + "t"])
    image.apply(gone)
    shards.metadata_changed(gone)
    assert shards.of_partition(TopicPartition("t", 1)) == 0


def test_names_that_clients_make_up_take_no_room() -> None:
    _, shards = made()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1_000):
        shards.of_id("g" * 30_000 + str(number))
        shards.of_partition(TopicPartition("t" * 30_000 + str(number), 0))
        shards.of_partition(TopicPartition("t", 2 + number))
        shards.of_partition(TopicPartition("t", -1 - number))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000
