"""Hand out messages one by one under leases. Which come next is the lanes' business, who gets them the line's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.commands import Stored
from goqueue.base.delays import is_expired
from goqueue.base.entropy import Entropy
from goqueue.base.errors import GoQueueError, InvalidGroup
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.leases import Begin, Delivered, Take
from goqueue.base.limits import MIB
from goqueue.base.priority import NAMES
from goqueue.core.dead_letter import KEEPER
from goqueue.core.delivery.lane import Held, LaneBook
from goqueue.core.delivery.machine import PARKED_MAX, Delivery, Grant
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.records import View
from goqueue.core.delivery.states import State
from goqueue.core.lanes import Lanes
from goqueue.drive.baton import Baton, Waiter
from goqueue.drive.delivery_runner import DeliveryRunner
from goqueue.drive.feed import Feed
from goqueue.drive.partition import Partition
from goqueue.format.records import Record
from goqueue.service.feeds import Feeds
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.positions import Positions
from goqueue.service.queue_rules import QueueRules
from goqueue.service.topics import Topics
from goqueue.service.trace_leases import TracedLeases

_LANES: Final = range(len(NAMES))
_BYTES_MAX: Final = 8 * MIB  # an answer ends with the message that passes this
_TURNS_MAX: Final = 10_000
_LOOK_AGAIN_S: Final = 0.05  # while a log is being looked through
_PASSED_AT_ONCE: Final = 500  # messages that are not to be handed out
_LIVE, _OLD, _GONE = "live", "old", "gone"  # what becomes of a message that was looked at


class _Source(msgspec.Struct, frozen=True):
    """One partition that a take draws from."""

    partition: Partition
    feed: Feed
    delivery: Delivery
    policy: Policy


class Taking:
    """The verb, and the line of those who wait."""

    def __init__(
        self,
        runner: DeliveryRunner,
        topics: Topics,
        rules: QueueRules,
        feeds: Feeds,
        positions: Positions,
        clock: Clock,
        entropy: Entropy,
        metrics: BrokerMetrics,
    ) -> None:
        self._runner = runner
        self._topics = topics
        self._rules = rules
        self._feeds = feeds
        self._positions = positions
        self._clock = clock
        self._entropy = entropy
        self._metrics = metrics
        self._baton = Baton()
        self._turns: dict[tuple[str, Sequence[TopicPartition]], Lanes] = {}
        self._full: dict[tuple[str, str], set[Waiter]] = {}  # consumers that hold as much as they may
        self._stopping = False
        self.traces: TracedLeases | None = None
        runner.on_ready = self.ready

    def stop(self) -> None:
        """Everybody who waits is answered with nothing."""
        self._stopping = True
        self._baton.wake_all()
        for group, owner in self._full:
            self.has_room(group, owner)

    # --- hand out --------------------------------------------------------------------------------------------

    async def take(self, take: Take, interrupt: asyncio.Future[None] | None = None) -> list[Delivered]:
        """Messages under a lease; durable when it returns. A take that is broken off gives them back.

        Once `interrupt` is done it waits no longer.
        """
        sources = [self._source(take, at) for at in take.partitions]
        found = await self._gather(take, sources)
        if not found and take.wait_ms_max > 0:
            found = await self._wait_for_some(take, sources, interrupt)
        self._wake_next(take.group, sources)
        return found

    async def _wait_for_some(
        self, take: Take, sources: Sequence[_Source], interrupt: asyncio.Future[None] | None
    ) -> list[Delivered]:
        """Stands in line before it looks, so that nothing slips in between."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + take.wait_ms_max / 1000
        woken_for_nothing = False
        while True:
            waiter = Waiter(take.group, [source.partition for source in sources])
            self._enter(take, sources, waiter, woken_for_nothing)
            try:
                found = await self._gather(take, sources)
                left_s = deadline - loop.time()
                if found or left_s <= 0 or self._stopping or (interrupt is not None and interrupt.done()):
                    return found
                if any(source.feed.is_behind for source in sources):
                    left_s = min(left_s, _LOOK_AGAIN_S)
                await self._wait([waiter.woken, *([] if interrupt is None else [interrupt])], left_s)
                woken_for_nothing = True
            except asyncio.CancelledError:
                self._wake_next(take.group, sources)
                raise
            finally:
                self._leave(take, waiter)

    async def _wait(self, news: Iterable[asyncio.Future[None]], left_s: float) -> None:
        self._metrics.long_polls.inc()
        try:
            await asyncio.wait(news, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._metrics.long_polls.dec()

    def _enter(self, take: Take, sources: Sequence[_Source], waiter: Waiter, first: bool) -> None:
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

    def _wake_next(self, group: str, sources: Sequence[_Source]) -> None:
        """Who leaves something behind wakes the next in line."""
        for source in sources:
            if self._has_more(source):
                self._baton.wake_one(group, source.partition.at)

    def ready(self, view: View) -> None:
        """Time gave something back: to the next in line, and room to those who had none."""
        self._baton.wake_one(view.group, view.at)
        for group, owner in list(self._full):
            if group == view.group:
                self.has_room(group, owner)

    def has_room(self, group: str, owner: str) -> None:
        for waiter in self._full.get((group, owner), ()):
            waiter.wake()

    def _has_more(self, source: _Source) -> bool:
        book, index = source.delivery.book, source.feed.index
        if index is None or index.scanned_to < source.feed.end or book.counts[State.READY] > book.parked_count:
            return True
        return any(index.has(lane, book.look_from(lane)) for lane in _LANES)

    def _source(self, take: Take, at: TopicPartition) -> _Source:
        topic = self._topics.require_users(at.topic)
        if take.group == KEEPER:
            raise InvalidGroup(f"The broker keeps the name {KEEPER} for itself.", field="group")
        partition = topic.partition(at.partition)
        delivery = self._open(take.group, partition, take.begin)
        return _Source(partition, self._feeds.of(partition), delivery, self._rules.policy(delivery.view))

    def _open(self, group: str, partition: Partition, begin: Begin) -> Delivery:
        view = View(group, partition.at.topic, partition.at.partition)
        delivery = self._runner.views.get(view)
        if delivery is None:
            delivery = self._runner.view(view)
            self._runner.write(delivery, delivery.open_at(self._positions.begin(view, partition, begin)))
        return delivery

    def begin_at_end(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """A group that is new to these begins with what is published from now on."""
        for at in partitions:
            topic = self._topics.find(at.topic)
            if topic is not None and at.partition < len(topic.partitions):
                self._open(group, topic.partitions[at.partition], "latest")

    async def _gather(self, take: Take, sources: Sequence[_Source]) -> list[Delivered]:
        found: list[Delivered] = []
        nonce = self._entropy.token(8).hex()
        try:
            await self._fill(take, sources, nonce, found)
            await self._runner.settle()
        except (asyncio.CancelledError, GoQueueError):
            self.give_back(take.group, found)
            raise
        self._metrics.delivered.inc(len(found))
        return found

    async def _fill(self, take: Take, sources: Sequence[_Source], nonce: str, found: list[Delivered]) -> None:
        """Lane by lane, as the turn goes, until enough or nothing more."""
        turn = self._turn(take)
        room = min(take.limit, self._room(take, sources))
        size = 0
        now = self._clock.now_ms()
        at = turn.visits % max(1, len(sources))  # another partition first each time, so that none starves
        turn.visits += 1
        sources = [*sources[at:], *sources[:at]]
        empty: set[int] = set()
        while len(found) < room and size < _BYTES_MAX:
            waiting = [has and lane not in empty for lane, has in enumerate(await self._waiting(sources))]
            if turn.visits == 1:  # acks of an earlier life can be told only now that the lanes are known
                for source in sources:
                    self._positions.moved(source.delivery.view)
            chosen = turn.next(waiting, now, self._is_strict(take, sources))
            if chosen is None:
                return
            lane, most = chosen
            only = sum(waiting) == 1
            wanted = room - len(found) if only else min(most, room - len(found))
            served = 0
            for source in sources:
                if served < wanted:
                    got = await self._lease(take, source, lane, wanted - served, nonce)
                    found += got
                    served += len(got)
                    size += sum(len(one.stored.value or b"") for one in got)
            turn.served(lane, served, now)
            if not served:
                empty.add(lane)

    async def _waiting(self, sources: Sequence[_Source]) -> list[bool]:
        """Which lanes have something to hand out."""
        waiting = [False] * len(NAMES)
        for source in sources:
            book = source.delivery.book
            index = await source.feed.look(book.base)  # there may be lanes that nobody looked at yet
            for lane in _LANES:
                if not waiting[lane]:
                    known = book.lanes.get(lane)
                    waiting[lane] = index.has(lane, book.look_from(lane)) or bool(
                        known is not None and known.ready and source.delivery.has_ready_again(lane)
                    )
        return waiting

    async def _lease(self, take: Take, source: _Source, lane: int, limit: int, nonce: str) -> list[Delivered]:
        """From one lane of one partition. What is passed over (too old, behind a key) does not end the search."""
        while True:
            looked, leased = await self._lease_once(take, source, lane, limit, nonce)
            if leased or not looked:
                return leased
            await self._pass_dull(source, lane)
            await asyncio.sleep(0)

    async def _lease_once(
        self, take: Take, source: _Source, lane: int, limit: int, nonce: str
    ) -> tuple[bool, list[Delivered]]:
        """First what comes again, then what is new; the flag says that there was something to look at."""
        delivery, feed = source.delivery, source.feed
        book = delivery.book.lane(lane)
        if delivery.book.parked_count >= PARKED_MAX and not delivery.has_ready_again(lane):
            return False, []
        again = delivery.ready_again(lane, limit)
        messages = await feed.at(again) if again else {}
        seen_to: Offset | None = None
        fresh: list[Record] = []
        if len(again) < limit:
            fresh, seen_to = await feed.of_lane(lane, book.look_from, limit - len(again))
        if not self._is_current(delivery, book):
            return False, []
        now = self._clock.now_ms()
        gone = [offset for offset, message in messages.items() if message is None]
        if gone:
            self._runner.write(delivery, delivery.drop(lane, gone))
        records = [message for message in messages.values() if message is not None] + fresh
        leased: list[Delivered] = []
        for fate, run in groupby(records, self._fates(source, now)):  # in order, as cells tile the log
            if fate == _LIVE:
                leased += self._grant(take, source, lane, list(run), nonce, now)
            else:
                self._pass_over(source, lane, list(run), fate, now)
        if seen_to is not None:
            book.seen_to = max(book.seen_to, seen_to)
            self._positions.moved(delivery.view)
        return bool(messages or fresh), leased

    def _is_current(self, delivery: Delivery, book: LaneBook) -> bool:
        """False if the view was forgotten or opened again while its log was read."""
        is_known = self._runner.views.get(delivery.view) is delivery
        return is_known and delivery.book.lanes.get(book.number) is book

    def _fates(self, source: _Source, now: Millis) -> Callable[[Record], str]:
        """Whether a message is handed out; a dead letter that was redriven or deleted is not."""
        at = source.partition.at
        keeper = self._runner.views.get(View(KEEPER, at.topic, at.partition))

        def fate(record: Record) -> str:
            if keeper is not None and not keeper.is_open(record.offset):
                return _GONE
            return _OLD if record.headers and is_expired(record.headers, now) else _LIVE

        return fate

    async def _pass_dull(self, source: _Source, lane: int) -> None:
        """However many messages at the front are not to be handed out, they cost a poll little."""
        book = source.delivery.book.lane(lane)
        records, _ = await source.feed.of_lane(lane, book.look_from, _PASSED_AT_ONCE)
        if self._is_current(source.delivery, book):
            now = self._clock.now_ms()
            for fate, run in groupby(records, self._fates(source, now)):
                if fate == _LIVE:
                    return
                self._pass_over(source, lane, list(run), fate, now)

    def _pass_over(self, source: _Source, lane: int, records: list[Record], fate: str, now: Millis) -> None:
        delivery, offsets = source.delivery, [record.offset for record in records]
        if self.traces is not None and fate == _OLD:
            self.traces.expired(delivery.view, records)
        if fate == _OLD and self._topics.require(delivery.view.topic).config.queue_expired_dead_letter == "true":
            self._runner.write(delivery, delivery.bury_unread(lane, offsets, source.policy, now))
        else:
            self._runner.write(delivery, delivery.drop(lane, offsets))
        if fate == _OLD:
            self._metrics.expired.inc(len(offsets))
        self._positions.moved(delivery.view)

    def _grant(
        self, take: Take, source: _Source, lane: int, records: list[Record], nonce: str, now: Millis
    ) -> list[Delivered]:
        delivery, policy = source.delivery, source.policy
        lease_ms = policy.lease_ms if take.lease_ms is None else take.lease_ms
        grant = Grant(take.owner, nonce, now + lease_ms)
        keys = [record.key for record in records] if policy.ordered else ()
        offsets, moves = delivery.lease(lane, [record.offset for record in records], keys, grant, now)
        self._runner.write(delivery, moves)
        wanted = set(offsets)
        chosen = records if len(offsets) == len(records) else [one for one in records if one.offset in wanted]
        if self.traces is not None:
            chosen = self.traces.leased(delivery.view, chosen, delivery.book.held, take.owner, lease_ms)
        return [_delivered(source.partition.at, one, delivery.book.held[one.offset], grant) for one in chosen]

    def _turn(self, take: Take) -> Lanes:
        key = (take.group, tuple(take.partitions))
        turn = self._turns.get(key)
        if turn is None:
            if len(self._turns) > _TURNS_MAX:
                self._turns.clear()
            turn = self._turns[key] = Lanes()
        return turn

    def _is_strict(self, take: Take, sources: Sequence[_Source]) -> bool:
        if take.strict:
            return True
        return bool(sources) and self._topics.require(sources[0].partition.at.topic).config.queue_lanes == "strict"

    def _room(self, take: Take, sources: Sequence[_Source]) -> int:
        if take.in_flight_max is None:
            return take.limit
        return take.in_flight_max - sum(source.delivery.book.in_flight.get(take.owner, 0) for source in sources)

    def give_back(self, group: str, found: Iterable[Delivered]) -> None:
        """Nobody got these after all."""
        for one in found:
            offset = one.stored.offset
            delivery = self._runner.views.get(View(group, one.stored.topic, one.stored.partition))
            if delivery is not None and delivery.is_leased(offset, one.attempt, one.receipt.rpartition(":")[2]):
                policy = self._rules.policy(delivery.view)
                self._runner.write(delivery, delivery.release([offset], policy, self._clock.now_ms()))
                self.ready(delivery.view)


def _delivered(at: TopicPartition, record: Record, held: Held, grant: Grant) -> Delivered:
    offset, handed = record.offset, held.handed
    stored = Stored(at.topic, at.partition, offset, record.timestamp_ms, record.key, record.value, record.headers)
    receipt = f"{at.topic}:{at.partition}:{offset}:{handed}:{grant.nonce}"
    return Delivered(stored, receipt, handed, held.failed, grant.until_ms, held.first_ms)
