"""Hands out messages of one lane of one partition: which of them still live, and which of their keys may go."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, groupby
from typing import Final

import msgspec

from goqueue.base.delays import is_expired
from goqueue.base.ids import Millis, Offset
from goqueue.base.leases import Take
from goqueue.core.dead_letter import KEEPER
from goqueue.core.delivery.keys import choose_runs
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.offers import PARKED_MAX, RUN_LOOK_AHEAD, Grant
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.runs import as_row
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.format.records import Record
from goqueue.service.environment import Environment
from goqueue.service.leased_run import LeasedRun, has_headers
from goqueue.service.queue_rules import oldest_ms
from goqueue.service.queue_views import Source
from goqueue.service.topics import Topics
from goqueue.service.trace_leases import TracedLeases

_PASSED_AT_ONCE: Final = 500  # messages that are not to be handed out
_LIVE, _OLD, _GONE = "live", "old", "gone"  # what becomes of a message that was looked at


class _Found(msgspec.Struct, frozen=True):
    """What a look brought: messages that come again, None for those that the log lost; new ones, and how far the log
    was looked through for them. `order` says who is wanted, where not everybody is."""

    again: dict[Offset, Record | None]
    fresh: Sequence[Record] = ()
    seen_to: Offset | None = None
    order: Sequence[Offset] | None = None


class Handing:
    def __init__(
        self, runner: DeliveryShards, topics: Topics, environment: Environment, traces: TracedLeases | None
    ) -> None:
        self._runner = runner
        self._topics = topics
        self._clock = environment.clock
        self._metrics = environment.metrics
        self._traces = traces

    async def lease(self, take: Take, source: Source, lane: int, limit: int, nonce: str) -> list[LeasedRun]:
        """What is passed over (too old, behind a key) does not end the search."""
        while True:
            looked, leased = await self._lease_once(take, source, lane, limit, nonce)
            if leased or not looked:
                return leased
            await self._pass_dull(source, lane)
            await asyncio.sleep(0)

    async def _lease_once(
        self, take: Take, source: Source, lane: int, limit: int, nonce: str
    ) -> tuple[bool, list[LeasedRun]]:
        """First what comes again, then what is new; the flag says that there was something to look at."""
        delivery = source.delivery
        opened = delivery.opened
        if delivery.parked_count >= PARKED_MAX and not delivery.has_ready_again(lane, nonce):
            return False, []
        found = await (self._look_for_runs if source.is_ordered else self._look)(source, lane, limit, nonce)
        if not self._is_current(delivery, opened):
            return False, []
        leased = self._hand_out(take, source, lane, found, nonce)
        if found.seen_to is not None:
            delivery.looked_to(lane, found.seen_to)
            self._runner.moved(delivery.view)
        return bool(found.again or found.fresh), leased

    async def _look(self, source: Source, lane: int, limit: int, nonce: str) -> _Found:
        """In order."""
        again = source.delivery.ready_again(lane, limit, nonce)
        messages = await source.feed.at(again) if again else {}
        if len(again) >= limit:
            return _Found(messages)
        return _Found(messages, *await source.feed.of_lane(lane, source.delivery.look_from(lane), limit - len(again)))

    async def _look_for_runs(self, source: Source, lane: int, limit: int, nonce: str) -> _Found:
        """As many as there are of the first message's key, then of the next; new ones that lie between stay ready."""
        delivery, feed = source.delivery, source.feed
        again = delivery.ready_again(lane, max(limit, RUN_LOOK_AHEAD), nonce)
        known = [(offset, delivery.tracked(offset).key) for offset in again]
        fresh, seen_to = list[Record](), None
        for ahead in (limit, RUN_LOOK_AHEAD):
            more = ahead - len(again)
            if more > len(fresh) and not _is_enough(known, fresh, limit):
                fresh, seen_to = await feed.of_lane(lane, delivery.look_from(lane), more)
                if len(fresh) < more:
                    break  # there are no others
        if not again and len(fresh) <= limit and _is_one_key(fresh):
            return _Found({}, fresh, seen_to)
        free = delivery.free_of_keys([(one.offset, one.key) for one in fresh], nonce)
        order = choose_runs(chain(known, free), limit)
        wanted = set(order)
        if len(wanted) == limit and len(known) + len(free) > limit:  # some that could go have no room
            cut = bisect_right(fresh, max(order), key=_offset_of)
            if cut < len(fresh):
                fresh, seen_to = fresh[:cut], fresh[cut].offset
        messages = await feed.at(sorted(wanted.intersection(again))) if again else {}
        return _Found(messages, fresh, seen_to, order)

    def _hand_out(self, take: Take, source: Source, lane: int, found: _Found, nonce: str) -> list[LeasedRun]:
        now = self._clock.now_ms()
        records = found.fresh
        if found.again:
            gone = [offset for offset, message in found.again.items() if message is None]
            self._runner.write(source.delivery, source.delivery.drop(lane, gone))
            records = [message for message in found.again.values() if message is not None] + [*found.fresh]
        wanted = None if found.order is None else set(found.order)
        leased: list[LeasedRun] = []
        for fate, run in self._by_fate(source, records, now):  # in order, as cells tile the log
            if fate == _LIVE:
                leased += self._grant(take, source, lane, run, nonce, now, wanted)
            else:
                self._pass_over(source, lane, run, fate, now)
        return leased if found.order is None else _in_order(leased, found.order)

    def _is_current(self, delivery: Delivery, opened: int) -> bool:
        """False if the view was forgotten or opened again while its log was read."""
        return self._runner.is_current(delivery) and delivery.opened == opened

    def _by_fate(
        self, source: Source, records: Sequence[Record], now: Millis
    ) -> Iterator[tuple[str, Sequence[Record]]]:
        """Messages in a row that share their fate."""
        fates = self._fates(source, records, now)
        if fates is not None:
            for fate, run in groupby(records, fates):
                yield fate, list(run)
        elif records:
            yield _LIVE, records

    def _fates(self, source: Source, records: Sequence[Record], now: Millis) -> Callable[[Record], str] | None:
        """Whether a message is handed out; a dead letter that was redriven or deleted is not. None if all are."""
        at = source.partition.at
        keeper = self._runner.find(ViewId(KEEPER, at.topic, at.partition))
        topic = self._topics.find(at.topic)
        oldest = 0 if topic is None else oldest_ms(topic, now)

        def plain(record: Record) -> str:
            return _OLD if record.headers and is_expired(record.headers, now) else _LIVE

        def fate(record: Record) -> str:
            if record.timestamp_ms < oldest or (keeper is not None and not keeper.is_open(record.offset)):
                return _GONE
            return plain(record)

        if oldest or keeper is not None:
            return fate
        return plain if has_headers(records) else None

    async def _pass_dull(self, source: Source, lane: int) -> None:
        """However many messages at the front are not to be handed out, they cost a poll little."""
        opened = source.delivery.opened
        records, _ = await source.feed.of_lane(lane, source.delivery.look_from(lane), _PASSED_AT_ONCE)
        if self._is_current(source.delivery, opened):
            now = self._clock.now_ms()
            for fate, run in self._by_fate(source, records, now):
                if fate == _LIVE:
                    return
                self._pass_over(source, lane, run, fate, now)

    def _pass_over(self, source: Source, lane: int, records: Sequence[Record], fate: str, now: Millis) -> None:
        delivery, offsets = source.delivery, [record.offset for record in records]
        if self._traces is not None and fate == _OLD:
            self._traces.expired(delivery.view, records)
        if fate == _OLD and self._topics.require(delivery.view.topic).config.queue_expired_dead_letter == "true":
            self._runner.write(delivery, delivery.dead_letter_unread(lane, offsets, source.policy, now))
        else:
            self._runner.write(delivery, delivery.drop(lane, offsets))
        if fate == _OLD:
            self._metrics.expired.inc(len(offsets))
        self._runner.moved(delivery.view)

    def _grant(
        self,
        take: Take,
        source: Source,
        lane: int,
        records: Sequence[Record],
        nonce: str,
        now: Millis,
        among: Collection[Offset] | None,
    ) -> list[LeasedRun]:
        delivery = source.delivery
        lease_ms = source.lease_ms if take.lease_ms is None else take.lease_ms
        grant = Grant(take.owner, nonce, now + lease_ms)
        offsets = as_row([record.offset for record in records])
        is_ordered = source.is_ordered
        moves = [] if is_ordered else delivery.lend_row(lane, offsets, grant, now)
        if not moves:
            keys = [record.key for record in records] if is_ordered else ()
            offsets, moves = delivery.lease(lane, offsets, keys, grant, now, among)
        self._runner.write(delivery, moves)
        chosen = records
        if len(offsets) < len(records):
            wanted = set(offsets)
            chosen = [one for one in records if one.offset in wanted]
        if self._traces is not None:
            chosen = self._traces.leased(delivery, chosen, take.owner, lease_ms)
        return _runs(delivery, chosen, offsets, grant)


def _is_enough(known: Sequence[tuple[Offset, bytes | None]], fresh: Sequence[Record], limit: int) -> bool:
    """So many of the first one's key are there that nobody need look for more."""
    if not known and not fresh:
        return False
    first = known[0][1] if known else fresh[0].key
    keys = [key for _, key in known] + [record.key for record in fresh]
    return keys.count(first) >= limit


def _offset_of(record: Record) -> Offset:
    return record.offset


def _is_one_key(records: Sequence[Record]) -> bool:
    return len({record.key for record in records}) <= 1


def _in_order(leased: list[LeasedRun], order: Sequence[Offset]) -> list[LeasedRun]:
    places = {offset: place for place, offset in enumerate(order)}
    pairs = [(record, run) for run in leased for record in run.records]
    pairs.sort(key=lambda pair: places[pair[0].offset])
    runs = [list(some) for _, some in groupby(pairs, lambda pair: id(pair[1]))]
    return [msgspec.structs.replace(some[0][1], records=[record for record, _ in some]) for some in runs]


def _runs(delivery: Delivery, records: Sequence[Record], offsets: Sequence[Offset], grant: Grant) -> list[LeasedRun]:
    """Those in a row that were handed out and failed equally often, and first at the same time."""
    at, found = delivery.view.at, list[LeasedRun]()
    begin = 0
    for count, (handed, failed, first_ms) in delivery.histories(offsets):
        some = records if count == len(records) else records[begin : begin + count]
        found.append(LeasedRun(at, grant.nonce, handed, failed, grant.until_ms, first_ms, some))
        begin += count
    return found
