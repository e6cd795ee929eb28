"""Which shard gets what: rules, without a state of their own. What is placed stays where it is."""

from __future__ import annotations

import heapq

import msgspec

from goqueue.base.errors import FewerShards, WrongNodeId
from goqueue.base.limits import ID_SLOTS, SHARDS_DEFAULT
from goqueue.base.metadata import ABSENT, Commit
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import SHARDS, SLOTS, ShardRecord, SlotTable, TopicRecord, encode


def placed(image: Image, record: TopicRecord) -> TopicRecord:
    """The record with a shard for each partition: those that have none go where the fewest are."""
    named = record.shards[: record.partitions]
    before = image.topic(record.name)
    if before is not None:
        named += tuple(before.shard_of(partition) for partition in range(len(named), before.partitions))
    added = _emptiest(image, max(0, record.partitions - len(named)))
    return msgspec.structs.replace(record, shards=(*named, *added)[: record.partitions])


def _emptiest(image: Image, count: int) -> list[int]:
    heap = [(image.partitions_in(shard), shard) for shard in image.shards()] or [(0, 0)]
    heapq.heapify(heap)
    chosen: list[int] = []
    for _ in range(count):
        held, shard = heap[0]
        chosen.append(shard)
        heapq.heapreplace(heap, (held + 1, shard))
    return chosen


def shards_for(image: Image, node_id: int, wanted: int) -> Commit | None:
    """What makes a single node have so many shards, with 0 as many as it has; None if it has.

    The first start shares the slots of ids out evenly. Shards that are added later get none, so that nothing moves; nor
    do those of a node that kept everything in one shard, before there were any.
    """
    known = image.shards()
    wanted = wanted or len(known) or (1 if image.topics() else SHARDS_DEFAULT)
    _check_shards(image, known, node_id, wanted)
    added = [number for number in range(wanted) if number not in known]
    puts = {f"{SHARDS}{number}": encode(ShardRecord(node_id, 0, (node_id,), (node_id,))) for number in added}
    if image.modified(SLOTS) == ABSENT:
        first = len(known) or (1 if image.topics() else wanted)
        puts[SLOTS] = encode(SlotTable(tuple(slot % first for slot in range(ID_SLOTS))))
    return Commit(puts, modified=dict.fromkeys(puts, ABSENT)) if puts else None


def _check_shards(image: Image, known: list[int], node_id: int, wanted: int) -> None:
    if len(known) > wanted:
        raise FewerShards(
            f"The data directory has {len(known)} shards; start with as many or more, not with {wanted}.",
            field="shards",
        )
    for number in known:
        if node_id not in (record := image.shard(number)).replicas:
            raise WrongNodeId(
                f"The data directory belongs to node {record.leader}, not to node {node_id}.", field="node.id"
            )
