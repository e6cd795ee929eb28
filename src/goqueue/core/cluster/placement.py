"""Which shard gets what: rules, without a state of their own. What is placed stays where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from goqueue.base.errors import InvalidConfig, InvalidReplicaAssignment, InvalidReplicationFactor
from goqueue.base.limits import ID_SLOTS, SHARDS_DEFAULT
from goqueue.base.metadata import ABSENT, Commit
from goqueue.base.names import INTERNAL
from goqueue.base.startup_errors import FewerShards, WrongNodeId
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import SHARDS, SLOTS, ShardRecord, SlotTable, TopicRecord, encode
from goqueue.core.cluster.shard_choice import AS_USUAL, MINIMUM, Placing, ShardChoice, emptiest, wish_of


class PlacedTopic(NamedTuple):
    """A topic's record with a shard for each partition, and the shards that are to be made with it."""

    record: TopicRecord
    added: Mapping[int, ShardRecord]


def placed(image: Image, record: TopicRecord, asked: Placing = AS_USUAL, usual: int = 1) -> PlacedTopic:
    """Partitions that have no shard go where the fewest are, among those that are as was asked: with `usual` replicas
    if that was not said, or as many as the topic has already. `InvalidReplicationFactor`, `InvalidReplicaAssignment`,
    `InvalidConfig` if the topic asks for more replicas in sync than it has."""
    named = record.shards[: record.partitions]
    before = image.topic(record.name)
    if before is not None:
        named += tuple(before.shard_of(partition) for partition in range(len(named), before.partitions))
    if image.processes and (asked.factor > 1 or any(len(nodes) > 1 for nodes in asked.nodes)):
        message = "All nodes are processes of one machine: a topic has one replica."
        raise InvalidReplicationFactor(message, field="replication_factor")
    choice = ShardChoice(image, wish_of(record))
    missing = max(0, record.partitions - len(named))
    if is_alone(image) or record.name in INTERNAL:
        if asked.factor > 1:
            raise InvalidReplicationFactor("There is one node: a topic has one replica.", field="replication_factor")
        chosen = emptiest(image, image.shards(), missing)
    elif asked.nodes:
        _check_as_many(image, named, asked)
        chosen = [choice.on(nodes) for nodes in asked.nodes]
    else:
        said = image.shard(named[0]).wanted if named else choice.usual(usual)
        factor = choice.checked(asked.factor) if asked.factor else said
        chosen = choice.spread_out(factor, missing) if missing else []
    found = msgspec.structs.replace(record, shards=(*named, *chosen)[: record.partitions])
    _check_minimum(image, found, choice.added)
    return PlacedTopic(found, choice.added)


def _check_as_many(image: Image, named: Sequence[int], asked: Placing) -> None:
    """Partitions that are added have as many replicas as the topic has already."""
    held = image.shard(named[0]).wanted if named else 0
    for nodes in asked.nodes:
        if named and len(nodes) != held:
            raise InvalidReplicaAssignment(
                f"The topic has {held} replicas of each partition; name as many nodes, not {len(nodes)}.",
                field="replicas",
            )


def is_alone(image: Image) -> bool:
    """One node, which is no part of a cluster: shards of those name the starts that count."""
    return not any(image.shard(shard).starts for shard in image.shards())


def _check_minimum(image: Image, record: TopicRecord, added: Mapping[int, ShardRecord]) -> None:
    minimum = record.overrides.get(MINIMUM)
    if minimum is None or record.deleting or is_alone(image):
        return
    factor = min((added.get(shard) or image.shard(shard)).wanted for shard in set(record.shards))
    if int(minimum) > factor:
        mistake = f"must be at most the topic's replication factor, which is {factor}"
        raise InvalidConfig(
            f"Topic settings are not right: {MINIMUM}: {mistake}.", field="config", mistakes={MINIMUM: mistake}
        )


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
