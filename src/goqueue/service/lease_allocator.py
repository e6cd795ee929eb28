"""Hand out messages under leases. Which come next is the lanes' business, who gets them the line's."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.leases import Delivered, Take
from goqueue.base.priority import NAMES, NORMAL
from goqueue.base.tenants import is_within
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.states import MessageState
from goqueue.core.lanes import LaneTurn
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.drive.wait_queue import Waiter, WaitQueue
from goqueue.service.environment import Environment
from goqueue.service.fetch import UNBOUNDED, ReadMemory
from goqueue.service.handing import Handing
from goqueue.service.leased_run import LeasedRun, messages_of
from goqueue.service.lending import Lending, LentBatches, Room
from goqueue.service.queue_views import QueueViews, Source
from goqueue.service.tenant_limits import TenantLimits

_LANES: Final = range(len(NAMES))
_TURNS_MAX: Final = 10_000
_LOOK_AGAIN_S: Final = 0.05  # while a log is being looked through


class Handful:
    """What one take was handed: messages by themselves, and whole batches."""

    __slots__ = ("count", "lent", "nonce", "runs", "size", "was_refused")

    def __init__(self, nonce: str) -> None:
        self.nonce = nonce
        self.was_refused = False  # there was no memory to read
        self.runs: list[LeasedRun] = []
        self.lent: list[LentBatches] = []
        self.count = self.size = 0

    def add(self, runs: Sequence[LeasedRun]) -> int:
        count = sum([len(run.records) for run in runs])
        self.runs += runs
        self.count += count
        self.size += sum([run.size for run in runs])
        return count

    def add_lent(self, lent: LentBatches) -> int:
        self.lent.append(lent)
        self.count += lent.count
        self.size += lent.size
        return lent.count

    def offsets(self) -> dict[TopicPartition, list[Offset]]:
        """Of everything."""
        found: dict[TopicPartition, list[Offset]] = {}
        for run in self.runs:
            found.setdefault(run.at, []).extend(one.offset for one in run.records)
        for lent in self.lent:
            for first, last in lent.ranges:
                found.setdefault(lent.at, []).extend(range(first, last + 1))
        return found


class LeaseAllocator:
    """The verb, and the line of those who wait."""

    def __init__(
        self,
        runner: DeliveryShards,
        views: QueueViews,
        handing: Handing,
        lending: Lending,
        environment: Environment,
        limits: TenantLimits,
    ) -> None:
        self._runner = runner
        self._limits = limits
        self._views = views
        self._handing = handing
        self._lending = lending
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._metrics = environment.metrics
        self._baton = WaitQueue()
        self._turns: dict[tuple[str, Sequence[TopicPartition]], LaneTurn] = {}
        self._full: dict[tuple[str, str], set[Waiter]] = {}  # consumers that hold as much as they may
        self._stopping = False

    def stop(self) -> None:
        """Everybody who waits is answered with nothing."""
        self._stopping = True
        self.wake_all()

    def wake_all(self) -> None:
        """Everybody who waits looks again."""
        self._baton.wake_all()
        for group, owner in self._full:
            self.has_room(group, owner)

    # --- hand out --------------------------------------------------------------------------------------------

    async def take(self, take: Take, interrupt: asyncio.Future[None] | None = None) -> list[LeasedRun]:
        """Messages under a lease; durable when it returns. A take that is broken off gives them back.

        Once `interrupt` is done it waits no longer.
        """
        return (await self.take_batches(take, UNBOUNDED, interrupt)).runs

    async def take_batches(
        self, take: Take, memory: ReadMemory, interrupt: asyncio.Future[None] | None = None
    ) -> Handful:
        """The same, and batches where the take wants them; as much of them as there is memory for."""
        self._limits.check_lease(take.group, self._leased)
        if self._views.asks_first:
            await self._views.learn(take.group, take.partitions)
        sources = self._views.sources(take)
        found: Handful | None = None
        if take.wait_ms_max <= 0 or any(map(self._has_more, sources)) or not self._turn(take).visits:
            found = await self._gather(take, sources, memory)
        if found is None or (not found.count and take.wait_ms_max > 0):
            found = await self._wait_for_some(take, sources, memory, interrupt, found is None)
        self._wake_next(take.group, sources)
        return found

    async def _wait_for_some(
        self,
        take: Take,
        sources: Sequence[Source],
        memory: ReadMemory,
        interrupt: asyncio.Future[None] | None,
        is_empty: bool,
    ) -> Handful:
        """Stands in line before it looks, so that nothing slips in between. `is_empty` says that there was nothing a
        moment ago."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + take.wait_ms_max / 1000
        woken_for_nothing = False
        while True:
            waiter = Waiter(take.group, [source.partition for source in sources])
            self._enter(take, sources, waiter, woken_for_nothing)
            try:
                found = await (self._find_none(sources) if is_empty else self._gather(take, sources, memory))
                is_empty = False
                left_s = deadline - loop.time()
                if found.count or left_s <= 0 or self._stopping or (interrupt is not None and interrupt.done()):
                    return found
                if woken_for_nothing and self._are_others(sources):
                    await self._views.learn(take.group, take.partitions)
                    sources = self._views.sources(take)
                    continue
                if found.was_refused or any(source.feed.is_behind for source in sources):
                    left_s = min(left_s, _LOOK_AGAIN_S)
                await self._wait(waiter, left_s, interrupt)
                woken_for_nothing = True
            except asyncio.CancelledError:
                self._wake_next(take.group, sources)
                raise
            finally:
                self._leave(take, waiter)

    async def _find_none(self, sources: Sequence[Source]) -> Handful:
        """What was written on the way, as the beginning of a new view, is safe before anybody is told so."""
        await self._runner.wait_durable(source.partition.at for source in sources)
        return Handful("")

    def _are_others(self, sources: Sequence[Source]) -> bool:
        """Views were forgotten or loaded again, and all can be asked."""
        if all(self._runner.is_current(source.delivery) for source in sources):
            return False
        return all(self._runner.is_loaded(source.partition.at) for source in sources)

    async def _wait(self, waiter: Waiter, left_s: float, interrupt: asyncio.Future[None] | None) -> None:
        """Until it is woken, or interrupted, or so much time is over."""
        timer = asyncio.get_running_loop().call_later(left_s, waiter.wake)
        if interrupt is not None:
            interrupt.add_done_callback(waiter.interrupted)
        self._metrics.long_polls.inc()
        try:
            await waiter.woken
        finally:
            self._metrics.long_polls.dec()
            timer.cancel()
            if interrupt is not None:
                interrupt.remove_done_callback(waiter.interrupted)

    def _enter(self, take: Take, sources: Sequence[Source], waiter: Waiter, first: bool) -> None:
        """Into line for news; a consumer that holds as much as it may waits for its own answers instead."""
        if self._room(take, sources) > 0:
            self._baton.enter(waiter, first)
        else:
            self._full.setdefault((take.group, take.owner), set()).add(waiter)

    def _leave(self, take: Take, waiter: Waiter) -> None:
        self._baton.leave(waiter)
        full = self._full.get((take.group, take.owner))
        if full is not None:
            full.discard(waiter)
            if not full:
                del self._full[take.group, take.owner]

    def _wake_next(self, group: str, sources: Sequence[Source]) -> None:
        """Who leaves something behind wakes the next in line."""
        for source in sources:
            if self._baton.has_line(group, source.partition.at) and self._has_more(source):
                self._baton.wake_one(group, source.partition.at)

    def ready(self, view: ViewId) -> None:
        """Time gave something back: to the next in line, and room to those who had none."""
        self._baton.wake_one(view.group, view.at)
        for group, owner in list(self._full):
            if group == view.group:
                self.has_room(group, owner)

    def has_room(self, group: str, owner: str) -> None:
        for waiter in self._full.get((group, owner), ()):
            waiter.wake()

    def _has_more(self, source: Source) -> bool:
        delivery, index = source.delivery, source.feed.index
        if index is None or index.scanned_to < source.feed.end or delivery.has_free:
            return True
        return any(index.has(lane, delivery.look_from(lane)) for lane in index.lanes)

    async def _gather(self, take: Take, sources: Sequence[Source], memory: ReadMemory) -> Handful:
        found = Handful(self._entropy.token(8).hex())
        granted = memory.reserve(take.bytes_max)
        found.was_refused = not granted
        try:
            if granted:
                await self._fill(take, sources, granted, found)
            await self._runner.wait_durable(source.partition.at for source in sources)
            await _wait_readable(sources, found)
        except (asyncio.CancelledError, GoQueueError):
            with suppress(GoQueueError):  # then their leases run out
                if take.in_ranges:
                    self.unsend(take.group, found.nonce, found.offsets())
                else:
                    self.give_back(take.group, messages_of(found.runs))
            raise
        finally:
            memory.release(granted)
        self._metrics.delivered.inc(found.count)
        return found

    async def _fill(self, take: Take, sources: Sequence[Source], bytes_max: int, found: Handful) -> None:
        """Lane by lane, as the turn goes, until enough or nothing more."""
        turn = self._turn(take)
        room = min(take.limit, self._room(take, sources))
        now = self._clock.monotonic_ms()
        at = turn.visits % max(1, len(sources))  # another partition first each time, so that none starves
        turn.visits += 1
        sources = [*sources[at:], *sources[:at]]
        empty: set[int] = set()
        while found.count < room and found.size < bytes_max:
            there = [await self._lanes(source, found.nonce) for source in sources]
            waiting = [lane not in empty and any(lane in some for some in there) for lane in _LANES]
            if turn.visits == 1:  # acks of an earlier life can be told only now that the lanes are known
                for source in sources:
                    self._runner.moved(source.delivery.view)
            chosen = turn.next(waiting, now, self._views.is_strict(take, sources))
            if chosen is None:
                return
            lane, most = chosen
            only = sum(waiting) == 1
            wanted = room - found.count if only else min(most, room - found.count)
            served = 0
            for source, some in zip(sources, there, strict=True):
                if served < wanted and lane in some:
                    room_left = Room(wanted - served, wanted - served, bytes_max - found.size)
                    served += await self._hand(take, source, lane, room_left, found, only)
            turn.served(lane, served, now)
            if not served:
                empty.add(lane)

    async def _hand(self, take: Take, source: Source, lane: int, room: Room, found: Handful, only: bool) -> int:
        """How many were found. What comes again goes first, message by message."""
        delivery, wanted, most, nonce = source.delivery, room.wanted, room.most, found.nonce
        if take.locks_max is not None:
            most = take.locks_max - delivery.count(MessageState.LEASED)
            wanted = min(wanted, most)
        if wanted <= 0:
            return 0
        if take.in_ranges and lane == NORMAL:
            again = len(delivery.ready_again(lane, wanted, nonce))
            if not again:
                room = Room(wanted, most if only and take.whole_batches else wanted, room.bytes_max)
                lent = await self._lending.lend(take, source, room, nonce)
                if lent is not None:
                    return found.add_lent(lent)
            wanted = again or wanted
        return found.add(await self._handing.lease(take, source, lane, wanted, nonce))

    async def _lanes(self, source: Source, nonce: str) -> Collection[int]:
        """Those that have something to hand out."""
        delivery, feed = source.delivery, source.feed
        base = delivery.base  # there may be lanes that nobody looked at yet
        index = feed.known(base) or await feed.look(base)
        there = [lane for lane in index.lanes if index.has(lane, delivery.look_from(lane))]
        there += [lane for lane in delivery.lanes_again() if delivery.has_ready_again(lane, nonce)]
        return there

    def _turn(self, take: Take) -> LaneTurn:
        key = (take.group, tuple(take.partitions))
        turn = self._turns.get(key)
        if turn is None:
            if len(self._turns) > _TURNS_MAX:
                self._turns.clear()
            turn = self._turns[key] = LaneTurn()
        return turn

    def _room(self, take: Take, sources: Sequence[Source]) -> int:
        wanted = self._limits.lease_room(take.group, take.limit, self._leased)
        if take.in_flight_max is None:
            return wanted
        held = sum(source.delivery.in_flight_of(take.owner) for source in sources)
        return min(wanted, take.in_flight_max - held)

    def _leased(self, tenant: str) -> list[int]:
        """By view; none of those of others."""
        leased = MessageState.LEASED
        return [one.count(leased) if is_within(tenant, one.view.group) else 0 for one in self._runner.loaded()]

    def give_back(self, group: str, found: Iterable[Delivered]) -> None:
        """Nobody got these after all."""
        for one in found:
            offset = one.stored.offset
            delivery = self._runner.find(ViewId(group, one.stored.topic, one.stored.partition))
            if delivery is not None and delivery.is_leased(offset, one.attempt, one.receipt.rpartition(":")[2]):
                policy = self._views.policy(delivery.view)
                self._runner.write(delivery, delivery.release([offset], policy, self._clock.now_ms()))
                self.ready(delivery.view)

    def unsend(self, group: str, nonce: str, offsets: Mapping[TopicPartition, Sequence[Offset]]) -> None:
        """The same, and that this poll was handed them does not count."""
        for at, some in offsets.items():
            delivery = self._runner.find(ViewId(group, at.topic, at.partition))
            if delivery is not None:
                self._runner.write(delivery, delivery.unsend(some, nonce))
                self.ready(delivery.view)


async def _wait_readable(sources: Sequence[Source], found: Handful) -> None:
    """Mostly that was the same round of the group commit which made the leases safe."""
    behind = [source.partition for source in sources if source.partition.has_unreadable_leases]
    if behind and found.count:
        offsets = found.offsets()
        for partition in behind:
            if partition.at in offsets:
                await partition.wait_readable(max(offsets[partition.at]))
