"""Publish with deduplication: every id once in five minutes, every message with a number that only grows.

The log is the truth: each message carries its id in a header, and what the last five minutes brought is read back from
the log's end when a topic is first published to after a start.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Final, NamedTuple

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.commands import (
    Browse,
    DeduplicationScope,
    InputMessage,
    OnceMessage,
    OnceResult,
    PublishedOnce,
    PublishMessages,
    PublishOnce,
    PublishResult,
    Stored,
)
from goqueue.base.errors import GoQueueError, NotLeader
from goqueue.base.ids import Millis, Offset
from goqueue.base.sqs_envelope import envelope_in, with_envelope
from goqueue.core.dead_letter import origin_of
from goqueue.core.deduplication_ids import WINDOW_MS, DeduplicationIds, Used, key_of
from goqueue.drive.topic_table import Topic
from goqueue.service.browse import Browsing
from goqueue.service.publish import Publish
from goqueue.service.repeatable_publish import is_unsure
from goqueue.service.scheduling import DelayedMessage, Scheduling
from goqueue.service.topics import Topics

_PAGE: Final = 2_000
_LOADS_MAX: Final = 10_000
_PER_MS: Final = 1_000_000  # numbers that one millisecond has room for


class OnceVerbs(NamedTuple):
    """What messages are stored and looked for by; all but the first reach every node."""

    publish: Publish
    publish_anywhere: Publish
    browsing: Browsing
    scheduling: Scheduling


class DeduplicatedPublish:
    """The verb."""

    def __init__(self, topics: Topics, verbs: OnceVerbs, clock: SteadyClock, ids_max: int) -> None:
        self._topics = topics
        self._publish, self._publish_anywhere, self._browsing, self._scheduling = verbs
        self._clock = clock
        self._ids = DeduplicationIds(ids_max)
        self._loads: dict[str, asyncio.Task[None]] = {}  # by topic id
        self._under_way: dict[bytes, asyncio.Future[None]] = {}
        self._doubts: Counter[str] = Counter()  # of topics by id: publishes that may be in the log or not
        self._last = 0

    async def messages(self, command: PublishOnce) -> list[OnceResult]:
        """What each message became: a new one, or the one that had used its id before."""
        topic = self._topics.require(command.scope.topic)
        keys = [_key(topic, command.scope, one) for one in command.messages]
        await self._known(topic, command.scope, keys)
        topic.partition(0).check_led()  # another leader has let messages in since, under ids that nobody knows here
        now = self._clock.monotonic_ms()
        self._ids.make_room(len(keys), now)
        results: dict[bytes, OnceResult] = {}
        fresh: dict[bytes, OnceMessage] = {}  # the first message of each id that is new
        for key, one in zip(keys, command.messages, strict=True):
            if (used := self._ids.find(key, now)) is not None:
                results[key] = PublishedOnce(used.message_id, used.sequence)
            else:
                fresh.setdefault(key, one)
        if fresh:
            results |= await self._store(command, topic, fresh, now)
        return [results[key] for key in keys]

    async def _store(
        self, command: PublishOnce, topic: Topic, fresh: dict[bytes, OnceMessage], now: Millis
    ) -> dict[bytes, OnceResult]:
        """An id counts as used only when its message is stored; until then a second publish of it waits. One that
        failed, or was given up, may be in the log all the same."""
        is_known = False
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way |= dict.fromkeys(fresh, done)
        sequences = [self._next_sequence() for _ in fresh]
        messages = [_numbered(one, number) for one, number in zip(fresh.values(), sequences, strict=True)]
        try:
            stored = await self._published(topic, PublishMessages(topic.name, messages, caller=command.caller))
            results: dict[bytes, OnceResult] = {}
            for (key, one), sequence, result in zip(fresh.items(), sequences, stored, strict=True):
                if isinstance(result, GoQueueError):
                    results[key] = result
                    continue
                self._ids.add(key, Used(now, one.envelope.id, sequence))
                results[key] = PublishedOnce(one.envelope.id, sequence)
            is_known = not any(isinstance(one, GoQueueError) and is_unsure(one) for one in results.values())
            return results
        finally:
            if not is_known:
                self._doubts[topic.record.id] += 1
            for key in fresh:
                del self._under_way[key]
            done.set_result(None)

    async def _published(self, topic: Topic, command: PublishMessages) -> list[PublishResult]:
        """A queue has one partition, and its ids hold for nobody else's log: where another leads by now, that one is to
        be asked. Queues for high throughput have several, at several nodes."""
        if len(topic.partitions) > 1:
            return await self._publish_anywhere.messages(command)
        stored = await self._publish.messages(command)
        for one in stored:
            if isinstance(one, NotLeader):
                raise one
        return stored

    async def _known(self, topic: Topic, scope: DeduplicationScope, keys: list[bytes]) -> None:
        """Returns when it is known of every id whether it is used."""
        while True:
            if topic.record.id in self._doubts:
                await self._end_doubts(topic)
            await self._loaded(topic, scope)
            if waiting := {self._under_way[key] for key in keys if key in self._under_way}:
                await asyncio.wait(waiting)
            elif topic.record.id not in self._doubts:
                return

    async def _end_doubts(self, topic: Topic) -> None:
        """All that the logs have is acknowledged when this returns, or gone, and is read again: only that counts."""
        doubts = self._doubts[topic.record.id]
        await self._publish_anywhere.settle(topic.name)
        if self._doubts[topic.record.id] == doubts:  # else another one came meanwhile
            del self._doubts[topic.record.id]
            self._loads.pop(topic.record.id, None)

    def forget(self, topic_ids: Iterable[str]) -> None:
        """Others may have published to these: what their logs hold is read again."""
        for topic_id in topic_ids:
            self._loads.pop(topic_id, None)

    async def last_sequence(self, scope: DeduplicationScope) -> int:
        """A number that is larger than that of every message before, and smaller than that of every one after."""
        await self._loaded(self._topics.require(scope.topic), scope)
        return self._next_sequence()

    def _next_sequence(self) -> int:
        """Larger than every one before, also than those before a restart."""
        self._last = max(self._last + 1, self._clock.now_ms() * _PER_MS)
        return self._last

    # --- after a start -------------------------------------------------------------------------------------

    async def _loaded(self, topic: Topic, scope: DeduplicationScope) -> None:
        loading = self._loads.get(topic.record.id)
        if loading is None:
            if len(self._loads) >= _LOADS_MAX:  # of topics that may be gone; to load twice does no harm
                self._loads = {key: task for key, task in self._loads.items() if not task.done()}
            loading = self._loads[topic.record.id] = asyncio.ensure_future(self._load(topic, scope))
        if not loading.done():
            await asyncio.wait([loading])
        if loading.cancelled() or loading.exception() is not None:
            self._loads.pop(topic.record.id, None)  # the next one tries again
            loading.result()

    async def _load(self, topic: Topic, scope: DeduplicationScope) -> None:
        """First what waits for its delay and is not in the log yet, so that nothing slips through between."""
        now = self._clock.now_ms()
        recent = self._recent(topic, now)
        found = [one async for stored in recent if (one := _used(topic, scope, stored, now)) is not None]
        monotonic_ms = self._clock.monotonic_ms()
        self._ids.make_room(len(found), monotonic_ms)
        for key, used in sorted(found, key=lambda one: one[1].sent_ms):
            age_ms = max(0, now - used.sent_ms)  # what seems to come from the future came just now
            self._ids.add(key, msgspec.structs.replace(used, sent_ms=monotonic_ms - age_ms))
            self._last = max(self._last, used.sequence)

    async def _recent(self, topic: Topic, now: Millis) -> AsyncIterator[Stored]:
        async for one in self._waiting(topic.name):
            if one.message is not None:
                yield one.message
        for one in await self._scheduling.entering(topic.name):
            if one.message is not None:
                yield one.message
        places = await self._browsing.offsets_from(topic.name, now - WINDOW_MS)
        while (page := await self._browsing.read(Browse(topic.name, places, _PAGE))).messages:
            places = page.next_offsets
            for stored in page.messages:
                yield stored

    async def _waiting(self, name: str) -> AsyncIterator[DelayedMessage]:
        """All that wait for their time. What has entered the log meanwhile makes room in the listing: what stands just
        before a page has to be known, else there may be more of that kind, and earlier ones are looked at again."""
        known = set[tuple[int, Offset]]()
        skip = 0
        while True:
            page = await self._scheduling.list(name, _PAGE, skip)
            before = await self._scheduling.list(name, 1, skip - 1) if skip else []
            if skip and known.isdisjoint((one.partition, one.offset) for one in before):
                skip //= 2
                continue
            if not page:
                return
            skip += len(page)
            known.update((one.partition, one.offset) for one in page)
            for one in page:
                yield one


def _numbered(one: OnceMessage, sequence: int) -> InputMessage:
    envelope = msgspec.structs.replace(one.envelope, sequence=sequence)
    return msgspec.structs.replace(one.message, headers=with_envelope(one.message.headers, envelope))


def _key(topic: Topic, scope: DeduplicationScope, one: OnceMessage) -> bytes:
    return _key_of(topic, scope, one.message.key, one.envelope.deduplication_id)


def _key_of(topic: Topic, scope: DeduplicationScope, group: bytes | None, deduplication_id: str) -> bytes:
    """Ids that are to be forgotten have other keys than those that come."""
    within = (group or b"").decode(errors="replace") if scope.by_group else None
    return key_of(f"{topic.record.id}/{scope.forgotten}", within, deduplication_id)


def _used(topic: Topic, scope: DeduplicationScope, stored: Stored, now: Millis) -> tuple[bytes, Used] | None:
    envelope = envelope_in(stored.headers)
    if envelope is None or not envelope.deduplication_id or now - envelope.sent_ms >= WINDOW_MS:
        return None
    if origin_of(stored.headers) is not None:
        return None  # it came from another queue
    if envelope.sequence <= scope.forgotten:
        return None
    key = _key_of(topic, scope, stored.key, envelope.deduplication_id)
    return key, Used(envelope.sent_ms, envelope.id, envelope.sequence)
