"""Shards moved to other nodes: what would move, begun, watched, cancelled; nodes emptied and taken out.

A move is written into the shard's record, which every node follows; the controller ends it when the new replicas are in
sync. So it survives every crash, and whoever asks may go away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from goqueue.api.cluster import BalanceBy, CopyProgress, MoveIn, MovePlanOut, PlannedMove, RestartSafety, ShardMove
from goqueue.base.errors import InvalidField, MetadataConflict, MoveRefused, NotLeader, UnknownNode, UnknownShard
from goqueue.base.metadata import Commit, Revision
from goqueue.core.cluster.balancing import HeldShard, Plan, by_bytes, by_traffic, planned
from goqueue.core.cluster.elections import as_of, preferred
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.moving import begun, cancelled, held_shards, may_hold
from goqueue.core.cluster.records import COPY_LIMIT, MEMBERS, SHARDS, CopyLimit, MemberRecord, ShardRecord, encode
from goqueue.core.cluster.shard_choice import wishes
from goqueue.core.cluster.unclean import UNCLEAN, chosen_uncleanly
from goqueue.core.replication.copy_rates import CopyState
from goqueue.drive.image_follower import ImageFollower
from goqueue.service.cluster_view import ClusterView
from goqueue.service.shard_sizes import ShardSize, ShardSizes

_PAUSE_S: Final = 0.05
_TRIES: Final = 10  # the leader and the controller change the record too
_Minimums = Mapping[int, int]  # replicas in sync that a shard needs


class Reassignments:
    """The verbs. Any node carries them out."""

    def __init__(
        self, metadata: ImageFollower, view: ClusterView, sizes: ShardSizes, is_alone: bool, unclean: bool = False
    ) -> None:
        """`sizes` are those of all nodes. `unclean`: shards whose topics do not say may get a leader that lacks
        something."""
        self._unclean = unclean
        self._metadata = metadata
        self._view = view
        self._sizes = sizes
        self._is_alone = is_alone

    def check_change(self) -> None:
        """Asked before anything is looked at for somebody who wants to change something."""

    # --- move ------------------------------------------------------------------------------------------------

    async def plan(self, ask: MoveIn) -> MovePlanOut:
        """What would be done. An error if it cannot be."""
        self._check_together()
        sizes = await self._known_sizes()
        moves = [self._planned_move(shard, target, sizes) for shard, target in self._plan(ask, sizes).items()]
        return MovePlanOut(moves, sum(one.bytes * len(one.adds) for one in moves), is_begun=False)

    async def begin(self, ask: MoveIn) -> MovePlanOut:
        """As planned. Drained nodes get nothing from then on."""
        found = await self._drained(ask) if ask.drained else await self.plan(ask)
        if ask.throttle is not None:
            await self.throttle(ask.throttle)
        minimums = self._minimums()
        for one in found.moves:
            change = partial(begun, target=one.after, minimum=minimums.get(one.shard, 1))
            await self._change(one.shard, change)
        return msgspec.structs.replace(found, is_begun=True)

    async def _drained(self, ask: MoveIn) -> MovePlanOut:
        for _ in range(_TRIES - 1):
            with suppress(MetadataConflict):
                return await self._drained_once(ask)
            await asyncio.sleep(_PAUSE_S)  # the image hears of it
        return await self._drained_once(ask)

    async def _drained_once(self, ask: MoveIn) -> MovePlanOut:
        """The plan, if nobody drained or filled a node while it was made: two together may be more than can go."""
        image = self._metadata.image
        seen = {key: image.modified(key) for key in (f"{MEMBERS}{node}" for node in image.members())}
        found = await self.plan(ask)
        await self._set_drained(ask.drained, ask.fill, seen)
        return found

    async def moves(self) -> list[ShardMove]:
        """Those under way."""
        image, found = self._metadata.image, list[ShardMove]()
        moving = {shard: record for shard in image.shards() if (record := image.shard(shard)).target}
        sizes = await self._known_sizes() if moving else {}
        for shard, record in moving.items():
            size = sizes.get(shard, ShardSize(shard, 0, 0, {}))
            missing = [node for node in record.target if node not in record.in_sync]
            lacking, copies = {node: _share(size, node) for node in missing}, _copies(size, missing)
            found.append(ShardMove(shard, list(record.before), list(record.target), lacking, size.bytes, copies))
        return found

    def throttled(self) -> int:
        """Bytes a second that a node sends to new replicas; 0 without a limit."""
        return self._metadata.image.copy_limit()

    async def throttle(self, bytes_per_s: int) -> None:
        """From now on, also for moves under way; 0 takes the limit away."""
        self._check_together()
        if bytes_per_s:
            await self._metadata.commit(Commit({COPY_LIMIT: encode(CopyLimit(bytes_per_s))}))
        else:
            await self._metadata.commit(Commit(deletes=[COPY_LIMIT]))

    async def cancel(self, shards: Sequence[int]) -> list[int]:
        """Those that turned back; without a name, all that move."""
        image = self._metadata.image
        for shard in shards:
            self._shard(shard)
        chosen = [shard for shard in shards or image.shards() if image.shard(shard).target]
        minimums = self._minimums()
        for shard in chosen:
            await self._change(shard, partial(cancelled, minimum=minimums.get(shard, 1)))
        return chosen

    async def elect(self, shard: int, unclean: bool) -> None:
        """The replica that is named first leads from now on; or, of a shard that nobody leads, one that lacks
        something, if its topics ask for that. `ElectionNotNeeded`, `PreferredLeaderAbsent`, `NoEligibleLeader`."""
        image = self._metadata.image

        def chosen(record: ShardRecord) -> ShardRecord:
            if unclean:
                default = image.settings().get(UNCLEAN, str(self._unclean).lower()) == "true"
                return chosen_uncleanly(image, shard, record, default)
            return preferred(record, {node: as_of(found, shard) for node, found in image.nodes().items()})

        await self._change(shard, chosen)

    # --- nodes -----------------------------------------------------------------------------------------------

    async def fill(self, node: int) -> None:
        """A node that was drained may hold shards again."""
        self._check_together()
        self._member(node)
        await self._set_drained((), [node])

    async def remove(self, node: int) -> None:
        """It does not belong to the cluster any more. It has to be stopped, and hold nothing."""
        self._check_together()
        image = self._metadata.image
        self._member(node)
        held = [shard for shard in image.shards() if node in image.shard(shard).replicas]
        if held:
            raise MoveRefused(f"Node {node} still holds {_named(held)}; drain it first.", field="node")
        if node in image.nodes():
            raise MoveRefused(f"Node {node} is running; stop it first.", field="node")
        key = f"{MEMBERS}{node}"
        await self._metadata.commit(Commit(deletes=[key], modified={key: image.modified(key)}))

    def restart_safe(self, node: int) -> RestartSafety:
        """Whether the others can go on without it. Shards that were made for topics which are gone hold nothing, and
        nobody misses them."""
        image = self._metadata.image
        if node not in image.nodes():
            self._member(node)
        used = {*wishes(image), *image.id_shards()}
        shards = [one for one in self._view.shards() if one.shard in used]
        reasons = [
            f"shard {one.shard} would have {len(one.in_sync) - 1} replicas in sync, and needs {max(1, one.min_in_sync)}"
            for one in shards
            if node in one.in_sync and len(one.in_sync) - 1 < max(1, one.min_in_sync)
        ]
        reasons += [f"shard {one.shard} has no leader" for one in shards if one.leader is None]
        return RestartSafety(node, not reasons, reasons)

    def led_by(self, node: int) -> list[int]:
        image = self._metadata.image
        return [shard for shard in image.shards() if image.shard(shard).leader == node]

    # --- what is asked ---------------------------------------------------------------------------------------

    def _plan(self, ask: MoveIn, sizes: Mapping[int, ShardSize]) -> Plan:
        if sum((bool(ask.shards), bool(ask.drained), ask.rebalance)) != 1:
            raise InvalidField("Name shards, or nodes to drain, or ask for a rebalance: one of the three.")
        if ask.fill and (not ask.drained or {*ask.fill} & {*ask.drained}):
            raise InvalidField("Nodes are filled beside others that are drained.", field="fill")
        minimums = self._minimums()
        if ask.shards:
            return {shard: self._named_target(shard, nodes, minimums) for shard, nodes in ask.shards.items()}
        if ask.rebalance:
            racks = may_hold(self._metadata.image, self._metadata.image.nodes())
            plan = planned(weighed(self._metadata.image, sizes.values(), ask.by), racks)
            return self._possible(plan, racks, minimums)
        return self._without(ask.drained, ask.fill, sizes, minimums)

    def _without(
        self, drained: Collection[int], filled: Collection[int], sizes: Mapping[int, ShardSize], minimums: _Minimums
    ) -> Plan:
        """For all drained nodes at once: what one holds does not go to the next, and either all can be drained or
        nothing is begun."""
        for node in (*drained, *filled):
            self._member(node)
        racks = may_hold(self._metadata.image, self._metadata.image.nodes(), filled)
        staying = {node: rack for node, rack in racks.items() if node not in drained}
        held = weighed(self._metadata.image, sizes.values(), "bytes")
        plan = planned(held, staying, even=False).items()
        concerned = {shard: to for shard, to in plan if not {*drained}.isdisjoint(held[shard].replicas)}
        return self._possible(concerned, staying, minimums)

    def _named_target(self, shard: int, nodes: Sequence[int], minimums: _Minimums) -> tuple[int, ...]:
        record = self._shard(shard)
        if not nodes or len(set(nodes)) != len(nodes):
            raise InvalidField(f"Shard {shard} needs nodes, each named once.", field="shards")
        for node in nodes:
            self._living(node)
            if node not in record.replicas and (known := self._metadata.image.member(node)) and known.is_drained:
                raise MoveRefused(f"Node {node} is drained and gets nothing; fill it first.", field="shards")
        if self._metadata.image.processes and len(nodes) > 1:
            raise MoveRefused("All nodes are processes of one machine: a shard is in one of them.", field="shards")
        minimum = minimums.get(shard, 1)
        if len(nodes) < minimum:
            raise MoveRefused(f"Shard {shard} needs {minimum} replicas in sync; name as many nodes.", field="shards")
        if record.target == tuple(nodes):
            raise MoveRefused(f"Shard {shard} is moving there already.", field="shards")
        return tuple(nodes)

    def _possible(self, plan: Plan, racks: Mapping[int, str], minimums: _Minimums) -> Plan:
        image = self._metadata.image
        if not racks:
            raise MoveRefused("No node would be left that may hold shards; drain fewer, or fill one that is drained.")
        for shard, target in plan.items():
            wanted = max(image.shard(shard).wanted, minimums.get(shard, 1))
            if len(target) < wanted:
                could = f"{len(racks)} node{'s' * (len(racks) != 1)}"
                raise MoveRefused(f"Shard {shard} is to have {wanted} replicas, and only {could} could hold one.")
        return plan

    def _planned_move(self, shard: int, target: Sequence[int], sizes: Mapping[int, ShardSize]) -> PlannedMove:
        record = self._metadata.image.shard(shard)
        before = record.before or record.replicas
        adds = [node for node in target if node not in record.in_sync]
        removes = [node for node in before if node not in target]
        size = sizes.get(shard, ShardSize(shard, 0, 0, {}))
        per_s = size.written_per_s + size.read_per_s
        return PlannedMove(shard, list(before), list(target), adds, removes, size.bytes, per_s)

    def _minimums(self) -> _Minimums:
        return {one.shard: one.min_in_sync for one in self._view.shards()}

    async def _known_sizes(self) -> dict[int, ShardSize]:
        return {one.shard: one for one in await self._sizes.led()}

    # --- what is there ---------------------------------------------------------------------------------------

    def _check_together(self) -> None:
        if self._is_alone:
            raise MoveRefused("This node is not in a cluster: there is no other to move anything to.")

    def _shard(self, shard: int) -> ShardRecord:
        try:
            return self._metadata.image.shard(shard)
        except NotLeader:
            raise UnknownShard(f"There is no shard {shard}.", field="shard") from None

    def _member(self, node: int) -> MemberRecord:
        if (found := self._metadata.image.member(node)) is None:
            raise UnknownNode(f"Node {node} does not belong to the cluster.", field="node")
        return found

    def _living(self, node: int) -> None:
        if node not in self._metadata.image.nodes():
            self._member(node)
            raise MoveRefused(f"Node {node} is not running.", field="shards")

    # --- changes ---------------------------------------------------------------------------------------------

    async def _change(self, shard: int, change: Callable[[ShardRecord], ShardRecord | None]) -> None:
        """On the record as it is when it is written."""
        key, image = f"{SHARDS}{shard}", self._metadata.image
        for attempt in range(_TRIES):
            revision, record = image.modified(key), self._shard(shard)
            after = change(record)
            if after is None:
                raise MoveRefused(
                    f"Too few of those who would keep shard {shard} are in sync; wait until more of them have it."
                )
            try:
                await self._metadata.commit(Commit({key: encode(after)}, modified={key: revision}))
                return
            except MetadataConflict:
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_PAUSE_S)  # the image hears of it

    async def _set_drained(
        self, drained: Iterable[int], filled: Iterable[int], seen: Mapping[str, Revision] = {}
    ) -> None:
        """`seen` are records that have to be as they were."""
        image, chosen = self._metadata.image, {**dict.fromkeys(drained, True), **dict.fromkeys(filled, False)}
        puts = {
            f"{MEMBERS}{node}": encode(msgspec.structs.replace(self._member(node), is_drained=is_drained))
            for node, is_drained in chosen.items()
        }
        await self._metadata.commit(Commit(puts, modified={key: image.modified(key) for key in puts} | dict(seen)))


def weighed(image: Image, sizes: Iterable[ShardSize], by: BalanceBy) -> dict[int, HeldShard]:
    """Shards as they are, with what they weigh."""
    if by == "traffic":
        return by_traffic(held_shards(image), {one.shard: (one.written_per_s, one.read_per_s) for one in sizes})
    return by_bytes(held_shards(image), {one.shard: one.bytes for one in sizes})


def _share(size: ShardSize, node: int) -> float:
    if not size.messages:
        return 0.0
    return round(max(0.0, 1 - size.behind.get(node, size.messages) / size.messages), 4)


def _copies(size: ShardSize, nodes: Iterable[int]) -> dict[int, CopyProgress]:
    """Of a node that the leader has not heard of yet nothing is there."""
    found = dict[int, CopyProgress]()
    for node in nodes:
        known = size.copies.get(node, CopyState(size.bytes, 0))
        left, per_s = known.bytes_left, known.bytes_per_s
        seconds = round(left / per_s, 1) if per_s else None
        found[node] = CopyProgress(max(0, size.bytes - left), left, per_s, seconds)
    return found


def _named(shards: Iterable[int]) -> str:
    numbers = [str(one) for one in shards]
    return f"shard{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
