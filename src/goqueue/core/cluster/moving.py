"""How a shard moves to other nodes: its record says where it is going until it is there. Rules, without a state.

While it moves, `replicas` are those that it is to have and those that it had, so that nothing is given up before the
new ones are in sync. Whoever begins or cancels writes the record, on its revision; the controller ends it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from goqueue.core.cluster.balancing import Held, HeldShard, Plan, planned
from goqueue.core.cluster.elections import led_by, left
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import NOBODY, NodeRecord, ShardRecord


def adding(record: ShardRecord) -> tuple[int, ...]:
    """Who gets a copy of a shard that moves."""
    return tuple(node for node in record.target if node not in record.before)


def is_added(record: ShardRecord, node: int) -> bool:
    """Whether a move brings it the shard, also one that is not known here yet."""
    return node not in (record.before or record.replicas)


def newly_added(before: ShardRecord, now: ShardRecord) -> list[int]:
    """Who gets the shard by a move that was not known before."""
    if (before.replicas, before.before) == (now.replicas, now.before):
        return []
    return [node for node in now.replicas if is_added(now, node) and node not in now.in_sync]


def begun(record: ShardRecord, target: Sequence[int], minimum: int = 1) -> ShardRecord | None:
    """On its way to these nodes, the first of which is to lead. One that moves already turns to them instead. None if
    too few who stay are in sync: fewer than the `minimum` that it needs."""
    before = record.before or record.replicas
    if tuple(target) == before:
        return cancelled(record, minimum)
    replicas = (*target, *(node for node in before if node not in target))
    turned = _held_by(record, replicas, minimum)
    return turned and msgspec.structs.replace(turned, replicas=replicas, target=tuple(target), before=before)


def cancelled(record: ShardRecord, minimum: int = 1) -> ShardRecord | None:
    """As it was before, without those that were to be added. None if too few of before are in sync."""
    before = record.before or record.replicas
    found = _held_by(record, before, minimum)
    return found and msgspec.structs.replace(found, replicas=before, target=(), before=())


def ended(record: ShardRecord, living: Mapping[int, NodeRecord]) -> ShardRecord | None:
    """The record of a shard that has arrived: everybody it was to be moved to is in sync. None as long as it has not.

    A leader that is not among them hands over in the same change.
    """
    target = record.target
    if not target or not all(_is_there(record, node, living) for node in target):
        return None
    if record.leader not in target:
        record = led_by(record, target[0], living)
    found = _held_by(record, target)
    return found and msgspec.structs.replace(found, replicas=target, target=(), before=())


def grown(image: Image, steady: Mapping[int, NodeRecord]) -> Plan:
    """Shards that have fewer replicas than they are to have, with more, as far as there are nodes for them. One whose
    replica is away waits for it."""
    racks = may_hold(image, steady)
    records = {number: image.shard(number) for number in image.shards()}
    held = {
        number: HeldShard(one.target or one.replicas, min(one.wanted, len(racks))) for number, one in records.items()
    }
    short = {
        number
        for number, one in records.items()
        if not one.target and len(one.replicas) < held[number].wanted and steady.keys() >= set(one.replicas)
    }
    plan = planned(held, racks) if short else {}
    return {number: target for number, target in plan.items() if number in short}


def may_hold(image: Image, living: Mapping[int, NodeRecord], filled: Collection[int] = ()) -> dict[int, str]:
    """Nodes that may get something, with their racks: they live, and are not drained, or are `filled` again."""
    drained = {node for node in image.members() if (known := image.member(node)) and known.is_drained}
    drained.difference_update(filled)
    return {node: one.rack for node, one in living.items() if node not in drained and not one.leaving}


def held_shards(image: Image) -> dict[int, Held]:
    """One that moves is where it is going."""
    records = {shard: image.shard(shard) for shard in image.shards()}
    return {shard: (one.target or one.replicas, one.wanted) for shard, one in records.items()}


def is_at_rest(image: Image) -> bool:
    """Nothing moves, everybody is there and stays, and every replica is in sync."""
    nodes, records = image.nodes(), [image.shard(shard) for shard in image.shards()]
    are_there = all(member in nodes for member in image.members()) and not any(one.leaving for one in nodes.values())
    return are_there and all(
        not one.target and one.leader in nodes and len(one.in_sync) == len(one.replicas) for one in records
    )


def _is_there(record: ShardRecord, node: int, living: Mapping[int, NodeRecord]) -> bool:
    found = living.get(node)
    return found is not None and record.counts(node, found.incarnation)


def _held_by(record: ShardRecord, nodes: Sequence[int], minimum: int = 1) -> ShardRecord | None:
    """Nobody else counts or leads any more. None if that would leave fewer than the minimum in sync, which may be all
    that have what was acknowledged; the last one is never given up."""
    staying = sum(node in nodes for node in record.in_sync)
    if staying < max(1, min(minimum, len(record.in_sync))):
        return None
    for node in (*record.in_sync, *record.eligible):
        if node not in nodes:
            record = left(record, node)
    if record.leader != NOBODY and record.leader not in nodes:
        return msgspec.structs.replace(record, leader=NOBODY, epoch=record.epoch + 1)
    return record
