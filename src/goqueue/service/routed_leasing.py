"""Leases for all nodes: each is given, kept and answered for where its partition is led.

Doors use it, and so do the members of groups that this node keeps (`service/consume.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from goqueue.base.clock import SteadyClock
from goqueue.base.entropy import Entropy
from goqueue.base.errors import GoQueueError, NotLeader
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.leases import Delivered, Outcome, QueueCounts, Take, receipt_stretches
from goqueue.base.limits import ROUTED_S
from goqueue.service.leased_run import LeasedRun, messages_of
from goqueue.service.leasing import Leasing, check_lease
from goqueue.service.node_takes import NodeTake, Part
from goqueue.service.peer_leasing import PeerLeasing
from goqueue.service.receive_attempts import ReceiveAttempts
from goqueue.service.router import Router
from goqueue.service.scattering import Scattering
from goqueue.service.topics import Topics

_LOOK_AGAIN_S: Final = 0.05  # while a consumer holds as much as it may
_HANDED_MAX: Final = 10_000
_NEAR_TURNS: Final = 8  # of so many takes one begins wherever its turn is


class RoutedLeasing:
    """The verbs of `Leasing` that doors and members use."""

    def __init__(self, router: Router, leasing: Leasing, topics: Topics, entropy: Entropy) -> None:
        self._router = router
        self._leasing = leasing
        self._topics = topics
        self._entropy = entropy
        self._turn = 0
        self._handed: dict[tuple[str, str], int] = {}  # at most so many does a consumer hold
        self._is_stopping = False
        self._said: dict[str, set[asyncio.Future[None]]] = {}  # about members of a group, under way to other nodes

    def stop(self) -> None:
        """Everybody who waits is answered with nothing."""
        self._is_stopping = True
        self._router.wake()

    # --- take ------------------------------------------------------------------------------------------------

    async def take(self, take: Take, interrupt: asyncio.Future[None] | None = None) -> list[Delivered]:
        """As `Leasing.take`. An attempt that may be asked for again is kept where the first partition is led."""
        if take.attempt_id is None or not take.partitions:
            return messages_of(await self.take_runs(take, interrupt))
        first, within_s = take.partitions[0], take.wait_ms_max / 1000 + ROUTED_S
        find = lambda: self._router.shards.leader_of(first)  # noqa: E731
        found: list[Delivered] = await self._router.ask_leader(find, Attempts, "take", [take], within_s=within_s)
        return found

    async def take_runs(self, take: Take, interrupt: asyncio.Future[None] | None = None) -> list[LeasedRun]:
        """As `Leasing.take_runs`."""
        await self.settled(take.group)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + take.wait_ms_max / 1000

        async def once(_: float) -> list[LeasedRun]:
            return await self._take(take, interrupt, deadline)

        return await self._router.persist(once, take.wait_ms_max / 1000 + ROUTED_S)

    async def _take(self, take: Take, interrupt: asyncio.Future[None] | None, deadline: float) -> list[LeasedRun]:
        loop = asyncio.get_running_loop()
        while True:
            left_s = max(0.0, deadline - loop.time())
            parts = self._parts(replace(take, wait_ms_max=round(left_s * 1000)))
            if [node for node, _ in parts] == [self._router.shards.node]:
                return await self._leasing.take_runs(parts[0][1], interrupt)
            room = await self._room(take, parts)
            if room > 0:
                found = await self._take_some(replace(take, limit=min(room, take.limit)), parts, interrupt, left_s)
                self._count(take, found)
                if found:
                    return found
            if loop.time() >= deadline or self._is_stopping or (interrupt is not None and interrupt.done()):
                return []
            if room <= 0:
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def _take_some(
        self, take: Take, parts: Sequence[Part], interrupt: asyncio.Future[None] | None, left_s: float
    ) -> list[LeasedRun]:
        parts = [(node, replace(part, limit=take.limit)) for node, part in parts]
        taking = NodeTake(self._router, self._leasing, take, self._entropy.token(8).hex(), self.give_back_runs)
        found = await taking.now(parts)
        if found or not left_s or self._is_stopping or (interrupt is not None and interrupt.done()):
            return found
        return await taking.wait(parts, interrupt, left_s)

    def _parts(self, take: Take) -> list[Part]:
        """What is taken at each node, beginning with another one each time. What nobody leads waits until somebody
        does, unless it is all there is."""
        if not take.partitions:
            return [(self._router.shards.node, take)]
        by_node: dict[int, list[TopicPartition]] = {}
        failure: NotLeader | None = None
        for at in take.partitions:
            try:
                by_node.setdefault(self._router.shards.leader_of(at), []).append(at)
            except NotLeader as error:
                failure = error
        if failure is not None and not by_node:
            raise failure
        self._turn += 1
        nodes = self._in_turn(by_node)
        return [(node, replace(take, partitions=tuple(by_node[node]))) for node in nodes]

    def _in_turn(self, nodes: Collection[int]) -> list[int]:
        """Another one first each time. Between processes of one machine, where a step to another costs what the take
        does, this one is first most of the time; the others have their turns, so that nothing there starves."""
        ordered = sorted(nodes, key=lambda node: (node + self._turn) % len(nodes))
        here = self._router.shards.node
        if self._turn % _NEAR_TURNS and here in nodes and self._router.shards.is_one_machine:
            ordered.remove(here)
            ordered.insert(0, here)
        return ordered

    # --- how much a consumer holds ---------------------------------------------------------------------------

    async def _room(self, take: Take, parts: Sequence[Part]) -> int:
        """How many more it may hold. What it was handed here is an upper bound; only if that is near the limit, or not
        known, the nodes are asked."""
        if take.in_flight_max is None or len(parts) == 1:
            return take.limit
        key = take.group, take.owner
        held = self._handed.get(key)
        if held is None or held + take.limit > take.in_flight_max // len(parts):
            if len(self._handed) >= _HANDED_MAX:
                self._handed.clear()
            held = self._handed[key] = await self._held(*key)
        return take.in_flight_max - held

    async def _held(self, group: str, owner: str) -> int:
        leaders = self._router.shards.leaders
        return sum(await self._router.ask_all(leaders, PeerLeasing, "in_flight", [group, owner]))

    def _count(self, take: Take, found: Iterable[LeasedRun]) -> None:
        key = take.group, take.owner
        if key in self._handed:
            self._handed[key] += sum(len(run.records) for run in found)

    def in_flight(self, group: str, owner: str) -> int:
        """At most so many; 0 if the consumer was handed nothing here."""
        return self._handed.get((group, owner), 0)

    # --- answers ---------------------------------------------------------------------------------------------

    async def ack(self, receipts: Sequence[str], late_too: bool = False) -> list[Outcome]:
        return await self._answer("ack", receipts, late_too)

    async def nack(self, receipts: Sequence[str], delay_ms: Millis | None = None, reason: str = "") -> list[Outcome]:
        return await self._answer("nack", receipts, delay_ms, reason)

    async def reject(self, receipts: Sequence[str], reason: str = "") -> list[Outcome]:
        return await self._answer("reject", receipts, reason)

    async def extend(
        self, receipts: Sequence[str], lease_ms: Millis, late_too: bool = False, total_ms_max: Millis | None = None
    ) -> list[Outcome]:
        check_lease(lease_ms)
        return await self._answer("extend", receipts, lease_ms, late_too, total_ms_max)

    async def _answer(self, verb: str, receipts: Sequence[str], *more: Any) -> list[Outcome]:
        places = _partitions_of(receipts)

        async def send(node: int, chosen: list[int], left_s: float) -> Sequence[Outcome]:
            args = [[receipts[place] for place in chosen], *more]
            found: list[Outcome] = await self._router.ask(node, Leasing, verb, args, {}, left_s)
            return found

        def leader_of(place: int) -> int:
            at = places[place]
            return self._router.shards.leader(0) if at is None else self._router.shards.leader_of(at)

        outcomes = await Scattering[None](self._router, leader_of, send, repeatable=True).run(range(len(receipts)))
        return [outcomes[place] for place in range(len(receipts))]

    # --- members ---------------------------------------------------------------------------------------------

    async def settled(self, group: str) -> None:
        """Returns when what was said about the group's members has reached the nodes, or cannot any more."""
        while said := self._said.get(group):
            await asyncio.wait(said)

    def give_back(self, group: str, found: Iterable[Delivered]) -> None:
        """Nobody got these after all."""
        self._say(group, self.extend([one.receipt for one in found], 0))

    def give_back_runs(self, group: str, runs: Sequence[LeasedRun]) -> None:
        self.give_back(group, messages_of(runs))

    def release(
        self, group: str, owner: str, lost: Collection[TopicPartition] | None = None, is_failure: bool = False
    ) -> None:
        """The owner no longer has these partitions, or any: what it holds of them goes to others."""
        self._handed.pop((group, owner), None)
        among = None if lost is None else list(lost)
        self._say(group, self._tell(self._nodes(among), "release", group, owner, among, is_failure))

    def begin_at_end(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """A group that is new to these begins with what is published from now on."""
        self._say(group, self._begin_at_end(group, list(partitions)))

    async def _begin_at_end(self, group: str, partitions: Sequence[TopicPartition]) -> None:
        async def send(node: int, places: list[int], left_s: float) -> Sequence[None]:
            chosen = [partitions[place] for place in places]
            await self._router.ask(node, PeerLeasing, "begin_at_end", [group, chosen], {}, left_s)
            return [None] * len(places)

        leader_of = lambda place: self._router.shards.leader_of(partitions[place])  # noqa: E731
        await Scattering[None](self._router, leader_of, send, repeatable=True).run(range(len(partitions)))

    async def ack_held(
        self, group: str, owner: str, nonces: Collection[str], among: Collection[TopicPartition] | None = None
    ) -> None:
        """As `Leasing.ack_held`. What a node gave whose answer was lost is in none of the polls: nobody has it."""
        await self.settled(group)
        chosen = None if among is None else list(among)
        await self._tell(self._nodes(chosen), "ack_held", group, owner, frozenset(nonces), chosen)
        if among is None:
            self._handed.pop((group, owner), None)

    def _nodes(self, among: Sequence[TopicPartition] | None) -> Callable[[], Iterable[int]]:
        shards = self._router.shards
        return shards.leaders if among is None else lambda: {shards.leader_of(at) for at in among}

    async def _tell(self, nodes: Callable[[], Iterable[int]], verb: str, *args: Any) -> None:
        await self._router.ask_all(nodes, PeerLeasing, verb, args)

    def _say(self, group: str, saying: Awaitable[Any]) -> None:
        """In the background. What cannot be told ends with the leases."""
        task = asyncio.ensure_future(_quietly(saying))
        self._said.setdefault(group, set()).add(task)
        task.add_done_callback(lambda done: self._heard(group, done))

    def _heard(self, group: str, task: asyncio.Future[None]) -> None:
        said = self._said.get(group, set())
        said.discard(task)
        if not said:
            self._said.pop(group, None)

    # --- administration --------------------------------------------------------------------------------------

    async def counts(self, group: str, topic: str) -> QueueCounts:
        parts: list[QueueCounts] = await self._of_topic(topic, "counts", group, topic)
        return QueueCounts(
            sum(one.ready for one in parts),
            sum(one.in_flight for one in parts),
            sum(one.waiting for one in parts),
            sum(one.dead for one in parts),
            min((one.oldest_ready_ms for one in parts if one.oldest_ready_ms is not None), default=None),
        )

    async def held_of(self, group: str, topic: str) -> int:
        return sum(await self._of_topic(topic, "held_of", group, topic))

    async def _of_topic(self, topic: str, verb: str, *args: Any) -> list[Any]:
        places = [one.at for one in self._topics.require(topic).partitions]
        return await self._router.ask_all(self._nodes(places), Leasing, verb, args)

    async def skip_all(self, group: str, topic: str) -> None:
        """Everything up to now counts as done."""
        places = [one.at for one in self._topics.require_users(topic).partitions]

        async def send(node: int, chosen: list[int], left_s: float) -> Sequence[None]:
            await self._router.ask(node, Leasing, "skip_all", [group, topic, chosen], {}, left_s)
            return [None] * len(chosen)

        leader_of = lambda place: self._router.shards.leader_of(places[place])  # noqa: E731
        done = await Scattering[None](self._router, leader_of, send, repeatable=True).run(range(len(places)))
        for outcome in done.values():
            if outcome is not None:
                raise outcome


class Attempts:
    """Takes that may be asked for again, kept at one node for all."""

    def __init__(self, routed: RoutedLeasing, topics: Topics, clock: SteadyClock) -> None:
        self._routed = routed
        self._topics = topics
        self._kept = ReceiveAttempts(routed.extend, clock)

    async def take(self, take: Take) -> list[Delivered]:
        config = self._topics.require_users(take.partitions[0].topic).config
        found = await self._kept.repeat(take, config.queue_lease_ms if take.lease_ms is None else take.lease_ms)
        if not found:
            found = messages_of(await self._routed.take_runs(take))
            self._kept.keep(take, found)
        return found


async def _quietly(saying: Awaitable[Any]) -> None:
    try:
        await saying
    except GoQueueError:
        return


def _partitions_of(receipts: Sequence[str]) -> list[TopicPartition | None]:
    """Of what is no receipt None: the first shard is where partitions would be that are not there."""
    found: list[TopicPartition | None] = []
    for begin, end in receipt_stretches(receipts):
        parts = receipts[begin].rsplit(":", 4)
        known = len(parts) == 5 and parts[1].isdecimal() and len(parts[1]) < 10
        found += [TopicPartition(parts[0], int(parts[1])) if known else None] * (end - begin)
    return found
