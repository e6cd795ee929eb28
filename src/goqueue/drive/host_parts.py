"""What a host is made with and made of: how records are stored, who hears of them, who waits for answers."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from goqueue.base.commands import Headers
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import CLOCK_STEP_MS_MIN
from goqueue.core.machine import ASKER, Decision, Machine, Reply
from goqueue.drive.partition import Partition
from goqueue.format.records import Record, decode

logger = logging.getLogger(__name__)

R = TypeVar("R")
M = TypeVar("M", bound=Machine[Any])

Encoded = tuple[bytes | None, bytes | None, Headers]  # key, value, headers


@dataclass(frozen=True)
class Codec(Generic[R]):
    """How the machine's records are stored; `name` is what errors and logs call the machine."""

    name: str
    encode: Callable[[R, Offset], Encoded]
    decode: Callable[[Record], R | None]  # None for a record that this version does not know


def keyed_codec(
    name: str,
    encode: Callable[[R], tuple[bytes, bytes | None]],
    decode: Callable[[bytes, bytes | None], R | None],
) -> Codec[R]:
    """Of records that are a key and a value, for a compacted log."""
    return Codec(name, lambda record, _: (*encode(record), ()), lambda stored: decode(stored.key or b"", stored.value))


@dataclass(frozen=True)
class Checkpoint(Generic[M, R]):
    """For a log that is not compacted: every so many bytes the machine is written whole, and the head dropped.

    `snapshot` is consumed lazily: the machine may change between two items, and an item is as of when it is made.
    """

    every_bytes: int
    snapshot: Callable[[M], Iterable[R]]
    drop_head: Callable[[Partition, Offset], Awaitable[None]]  # after all that stands behind the offset is durable


class Sink(Generic[M, R]):
    """Hears what happens to the machine. Made to be subclassed; everything is optional."""

    def restore(self, machine: M, partition: Partition) -> Offset:
        """Tells a new machine what is known without the log, and from which offset on its records are applied.
        Blocks; runs off the loop."""
        return partition.log.start_offset

    def loaded(self, machine: M) -> None:
        """The machine is served from now on. It is a new one after every load."""

    def written(self, machine: M, records: Sequence[R], now: Millis) -> None:
        """These are appended and applied, not yet durable."""

    async def wait_elsewhere(self, records: Sequence[R]) -> None:
        """Returns when that which `written` wrote elsewhere for these is durable; replies wait for it."""

    def perform(self, effect: Any) -> Awaitable[None] | None:
        """An effect of a decision that is durable; what it returns is awaited before the decision's next effect."""
        return None


def replay(
    machine: Machine[R], codec: Codec[R], partition: Partition, start: Offset, now: Millis
) -> tuple[int, Decision[R]]:
    """Applies every stored record from an offset on; how many there were, and what the machine decides then. Blocks."""
    count, newest_ms = 0, 0
    for batch in partition.log.batches(start):
        for stored in decode(batch):
            newest_ms = max(newest_ms, stored.timestamp_ms)
            record = codec.decode(stored)
            if record is not None:
                machine.apply(record, stored.offset)
                count += 1
    early_ms, shifted = newest_ms - now, list[R]()
    if early_ms >= CLOCK_STEP_MS_MIN:
        logger.warning("the clock was set back while the node was down", extra={"of": codec.name, "ms": early_ms})
        shifted = machine.shift(-early_ms, now).records
    decision = machine.loaded(now)
    decision.records[:0] = shifted
    return count, decision


async def perform_rest(sink: Sink[Any, Any], waits: Awaitable[None], effects: Iterable[Any]) -> None:
    """The effects of a decision behind one that has to be waited for."""
    await waits
    for effect in effects:
        more = sink.perform(effect)
        if more is not None:
            await more


class Answers:
    """Who waits for an answer, by ticket."""

    def __init__(self) -> None:
        self.next_ticket = itertools.count(ASKER + 1).__next__
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    def wait_for(self, ticket: int) -> asyncio.Future[Any]:
        waiting = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        return waiting

    def answer(self, ticket: int, result: Any) -> None:
        waiting = self._waiting.pop(ticket, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(result)

    def hand_out(self, replies: Iterable[Reply], error: GoQueueError | None = None) -> None:
        """The replies, or the error in their place."""
        for reply in replies:
            self.answer(reply.ticket, reply.result if error is None else error)

    def tell_all(self, error: GoQueueError) -> None:
        for ticket in list(self._waiting):
            self.answer(ticket, error)
