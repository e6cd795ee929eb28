"""What the controller decides about shards: who leads, and which start of a node counts. Rules, without a state.

Each change is to be committed on the record's revision, together with the controller's own key as it was made: a
controller that was deposed can do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final

import msgspec

from goqueue.core.cluster.errors import ElectionNotNeeded, PreferredLeaderAbsent
from goqueue.core.cluster.records import NOBODY, NodeRecord, ShardRecord
from goqueue.core.replication.rules import ALL_RULES, ReplicationRule, Rules

ENOUGH: Final = 2  # replicas that outlive the loss of one


def admitted(record: ShardRecord, node: int, found: NodeRecord, disk: str, rules: Rules = ALL_RULES) -> ShardRecord:
    """A node was started again, which is written down before it may count or lead. `disk` is the one it had.

    A start on the same disk that lost nothing takes the place of the one before, but does not go on as the leader. One
    that lost its tail, or its disk, leaves the sets. If nobody else is in them, a tail is given up for lost; a disk is
    waited for.
    """
    if node not in (*record.in_sync, *record.eligible) or record.starts.get(node) == found.incarnation:
        return record
    if node == record.leader and ReplicationRule.NEW_EPOCH in rules:
        record = msgspec.structs.replace(record, leader=NOBODY)
    same_disk, others = found.disk == disk, {*record.in_sync, *record.eligible} - {node}
    if ReplicationRule.START not in rules or (same_disk and not (found.lost_tail and others)):
        return msgspec.structs.replace(record, starts={**record.starts, node: found.incarnation})
    return left(record, node) if others else record


def left(record: ShardRecord, node: int) -> ShardRecord:
    """Without this node in the sets."""
    in_sync = tuple(one for one in record.in_sync if one != node)
    eligible = tuple(one for one in record.eligible if one != node)
    starts = {one: start for one, start in record.starts.items() if one != node}
    return msgspec.structs.replace(record, in_sync=in_sync, eligible=eligible, starts=starts)


def as_of(found: NodeRecord, shard: int) -> NodeRecord:
    """A node as one shard sees it: a log that lacks its end has lost its tail, and who cannot read everything leads
    only what nobody else can."""
    if shard not in found.short and shard not in found.damaged:
        return found
    lost_tail, leaving = found.lost_tail or shard in found.short, found.leaving or shard in found.damaged
    return msgspec.structs.replace(found, lost_tail=lost_tail, leaving=leaving)


def without_damaged(record: ShardRecord, living: Mapping[int, NodeRecord], shard: int) -> Mapping[int, NodeRecord]:
    """Those that can read everything; all of them if nobody else has what they have."""
    damaged = {node for node, found in living.items() if shard in found.damaged}
    others = {*record.in_sync, *record.eligible} - damaged
    return {node: found for node, found in living.items() if node not in damaged} if others else living


def needs_leader(record: ShardRecord, living: Mapping[int, NodeRecord], rules: Rules = ALL_RULES) -> bool:
    """The leader is gone, or was started again: it never goes on in its old epoch."""
    found = living.get(record.leader)
    if found is None:
        return True
    return ReplicationRule.NEW_EPOCH in rules and record.starts.get(record.leader) != found.incarnation


def handed_over(record: ShardRecord, living: Mapping[int, NodeRecord], steady: Set[int]) -> ShardRecord | None:
    """The record with a better leader than one that lives, if there is one: not one that is leaving; and the replica
    that is named first, once it has been there for a while. None if it is well as it is.

    Who leaves is not waited for by who comes, if enough others stay: it may have to cut its log first.
    """
    leader = living.get(record.leader)
    if leader is None:
        return None
    staying = {node for node, one in living.items() if not one.leaving and record.counts(node, one.incarnation)}
    if leader.leaving:
        if len(staying) >= ENOUGH:
            record = left(record, record.leader)
        return next((led_by(record, node, living) for node in record.replicas if node in staying), None)
    first = record.replicas[0]
    wanted = first if first in staying and first in steady else NOBODY
    return None if wanted in (NOBODY, record.leader) else led_by(record, wanted, living)


def preferred(record: ShardRecord, living: Mapping[int, NodeRecord]) -> ShardRecord:
    """Led by the replica that is named first. `ElectionNotNeeded`, `PreferredLeaderAbsent`."""
    first = record.replicas[0]
    found = living.get(first)
    if record.leader == first:
        raise ElectionNotNeeded(f"Node {first} leads already.")
    if found is None or found.leaving or not record.counts(first, found.incarnation):
        raise PreferredLeaderAbsent(f"Node {first} is not there, or not in sync.")
    return led_by(record, first, living)


def led_by(record: ShardRecord, node: int, living: Mapping[int, NodeRecord]) -> ShardRecord:
    """The record in the next epoch, led by this node, which is in sync."""
    starts = {**record.starts, node: living[node].incarnation}
    return msgspec.structs.replace(record, leader=node, epoch=record.epoch + 1, starts=starts)


def elected(
    record: ShardRecord, living: Mapping[int, NodeRecord], unclean: bool = False, rules: Rules = ALL_RULES
) -> ShardRecord | None:
    """The record with another leader and a higher epoch; nobody leads while none of those that may is alive. None if
    that is how it is already."""
    for node in _candidates(record, living, rules):
        in_sync = _still_in_sync(record, node, living, rules)
        eligible = tuple(one for one in record.eligible if one != node) if node in record.eligible else record.eligible
        starts = {**record.starts, node: living[node].incarnation}
        chosen = {"leader": node, "epoch": record.epoch + 1, "in_sync": in_sync, "eligible": eligible, "starts": starts}
        return msgspec.structs.replace(record, **chosen)
    held = *record.before, *record.replicas  # one that moves: first those that had it before
    if unclean and (some := next((node for node in held if node in living), None)) is not None:
        return _elected_uncleanly(record, some, living)
    return None if record.leader == NOBODY else msgspec.structs.replace(record, leader=NOBODY, epoch=record.epoch + 1)


def _elected_uncleanly(record: ShardRecord, node: int, living: Mapping[int, NodeRecord]) -> ShardRecord:
    """What this node lacks is lost: nobody else counts any more, whatever they have."""
    epoch, starts = record.epoch + 1, {node: living[node].incarnation}
    chosen = {"leader": node, "epoch": epoch, "in_sync": (node,), "eligible": (), "starts": starts}
    return msgspec.structs.replace(record, **chosen, unclean=record.unclean + 1, unclean_epoch=epoch)


def has_candidate(record: ShardRecord, living: Mapping[int, NodeRecord]) -> bool:
    """Somebody who has everything acknowledged is there."""
    return any(True for _ in _candidates(record, living, ALL_RULES))


def _still_in_sync(record: ShardRecord, leader: int, living: Mapping[int, NodeRecord], rules: Rules) -> tuple[int, ...]:
    """Those that live, as the starts that count, if they are enough, so that writes need not wait for the others. Else
    all stay: what the leader alone has is not to be given up with its disk."""
    if leader not in record.in_sync:
        return (leader,)
    alive = tuple(one for one in record.in_sync if one == leader or _is_that_start(record, one, living, rules))
    return alive if len(alive) >= ENOUGH else record.in_sync


def _candidates(record: ShardRecord, living: Mapping[int, NodeRecord], rules: Rules) -> Iterator[int]:
    """In the order of preference: in sync, then eligible, each in the order in which replicas are named."""
    if ReplicationRule.IN_SYNC_ONLY not in rules:
        yield from (node for node in record.replicas if node in living)
    for chosen in (record.in_sync, record.eligible):
        for node in record.replicas:
            if node in chosen and _is_that_start(record, node, living, rules):
                yield node


def _is_that_start(record: ShardRecord, node: int, living: Mapping[int, NodeRecord], rules: Rules) -> bool:
    found = living.get(node)
    if found is None:
        return False
    return ReplicationRule.START not in rules or record.starts.get(node) == found.incarnation
