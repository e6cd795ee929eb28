"""Sends to FIFO queues: every deduplication id once in five minutes, every message with a number that only grows.

The log is the truth: each message carries its id in a header, and what the last five minutes brought is read back from
the log's end when a queue is first sent to after a start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.commands import Browse, Stored
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis
from goqueue.core.once import WINDOW_MS, Once, Used, key_of
from goqueue.drive.topic_table import Topic
from goqueue.edge.sqs.attributes import kept_of
from goqueue.edge.sqs.dead import origin_of
from goqueue.edge.sqs.messages import envelope_in
from goqueue.service.browse import Browsing
from goqueue.service.scheduling import Scheduling

_PAGE: Final = 2_000
_LOADS_MAX: Final = 10_000
_PER_MS: Final = 1_000_000  # numbers that one millisecond has room for


class Draft(msgspec.Struct, frozen=True):
    """A message before it has its number."""

    message_id: str
    group: str
    deduplication_id: str


Store = Callable[[Sequence[tuple[int, int]]], Awaitable[Sequence[GoQueueError | None]]]  # (place, sequence) of each


class FifoSends:
    def __init__(self, browsing: Browsing, scheduling: Scheduling, clock: SteadyClock, ids_max: int) -> None:
        self._browsing = browsing
        self._scheduling = scheduling
        self._clock = clock
        self._once = Once(ids_max)
        self._loads: dict[str, asyncio.Task[None]] = {}  # by topic id
        self._under_way: dict[bytes, asyncio.Future[None]] = {}
        self._last = 0

    async def send(self, topic: Topic, drafts: Sequence[Draft], store: Store) -> list[Used | GoQueueError]:
        """What each draft became: a new message, or the one that had used its id before."""
        await self._loaded(topic)
        keys = [_key(topic, one.group, one.deduplication_id) for one in drafts]
        while waiting := {self._under_way[key] for key in keys if key in self._under_way}:
            await asyncio.wait(waiting)
        now = self._clock.monotonic_ms()
        self._once.make_room(len(keys), now)
        outcomes: dict[bytes, Used | GoQueueError] = {}
        fresh: dict[bytes, int] = {}  # the first place of each id that is new
        for place, key in enumerate(keys):
            if (used := self._once.find(key, now)) is not None:
                outcomes[key] = used
            else:
                fresh.setdefault(key, place)
        if fresh:
            outcomes |= await self._store(drafts, fresh, store, now)
        return [outcomes[key] for key in keys]

    async def _store(
        self, drafts: Sequence[Draft], fresh: dict[bytes, int], store: Store, now: Millis
    ) -> dict[bytes, Used | GoQueueError]:
        """An id counts as used only when its message is stored; until then a second send of it waits."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way |= dict.fromkeys(fresh, done)
        numbered = [(place, self._next(self._clock.now_ms())) for place in fresh.values()]
        try:
            errors = await store(numbered)
            outcomes: dict[bytes, Used | GoQueueError] = {}
            for key, (place, sequence), error in zip(fresh, numbered, errors, strict=True):
                outcomes[key] = error or Used(now, drafts[place].message_id, sequence)
                if error is None:
                    self._once.add(key, Used(now, drafts[place].message_id, sequence))
            return outcomes
        finally:
            for key in fresh:
                del self._under_way[key]
            done.set_result(None)

    async def mark(self, topic: Topic) -> int:
        """A number that is larger than that of every message before."""
        await self._loaded(topic)
        return self._next(self._clock.now_ms())

    def _next(self, now: Millis) -> int:
        """Larger than every one before, also than those before a restart."""
        self._last = max(self._last + 1, now * _PER_MS)
        return self._last

    # --- after a start -------------------------------------------------------------------------------------

    async def _loaded(self, topic: Topic) -> None:
        loading = self._loads.get(topic.record.id)
        if loading is None:
            if len(self._loads) >= _LOADS_MAX:  # of queues that may be gone; to load twice does no harm
                self._loads = {key: task for key, task in self._loads.items() if not task.done()}
            loading = self._loads[topic.record.id] = asyncio.ensure_future(self._load(topic))
        if not loading.done():
            await asyncio.wait([loading])
        if loading.cancelled() or loading.exception() is not None:
            self._loads.pop(topic.record.id, None)  # the next one tries again
            loading.result()

    async def _load(self, topic: Topic) -> None:
        """First what waits for its delay and is not in the log yet, so that nothing slips through between."""
        now = self._clock.now_ms()
        recent = self._recent(topic, now)
        found = [one async for stored in recent if (one := _used(topic, stored, now)) is not None]
        monotonic_ms = self._clock.monotonic_ms()
        self._once.make_room(len(found), monotonic_ms)
        for key, used in sorted(found, key=lambda one: one[1].sent_ms):
            age_ms = max(0, now - used.sent_ms)  # what seems to come from the future came just now
            self._once.add(key, msgspec.structs.replace(used, sent_ms=monotonic_ms - age_ms))
            self._last = max(self._last, used.sequence)

    async def _recent(self, topic: Topic, now: Millis) -> AsyncIterator[Stored]:
        skip = 0
        while waiting := await self._scheduling.list(topic.name, _PAGE, skip):
            skip += len(waiting)
            for one in waiting:
                if one.message is not None:
                    yield one.message
        places = await self._browsing.offsets_from(topic.name, now - WINDOW_MS)
        while (page := await self._browsing.read(Browse(topic.name, places, _PAGE))).messages:
            places = page.next_offsets
            for stored in page.messages:
                yield stored


def _key(topic: Topic, group: str, deduplication_id: str) -> bytes:
    """A purge makes every id new."""
    kept = kept_of(topic)
    scoped = kept.attributes.get("DeduplicationScope") == "messageGroup"
    return key_of(f"{topic.record.id}/{kept.purged}", group if scoped else None, deduplication_id)


def _used(topic: Topic, stored: Stored, now: Millis) -> tuple[bytes, Used] | None:
    envelope = envelope_in(stored.headers)
    if envelope is None or not envelope.deduplication_id or now - envelope.sent_ms >= WINDOW_MS:
        return None
    if origin_of(stored.headers) is not None:
        return None  # it came from another queue
    if envelope.sequence <= kept_of(topic).purged:
        return None
    group = (stored.key or b"").decode(errors="replace")
    key = _key(topic, group, envelope.deduplication_id)
    return key, Used(envelope.sent_ms, envelope.id, envelope.sequence)
