"""One publish whose batches can be sent again: whoever leads recognises what is stored already.

Every partition's messages carry a producer id and the number of the first of them. As long as nobody changes the topic,
a second try makes the same batches with the same numbers, and a partition's leader remembers the last few batches of
each producer, on followers too. More than a few batches at once cannot be told from new ones, and are not sent again.
Messages that wait for their time are recognised in another way: see `service/delayed_again.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from goqueue.base.commands import BatchIdentity, InputMessage, PublishResult, StoredAt
from goqueue.base.errors import (
    DiskFull,
    Forbidden,
    GoQueueError,
    Invalid,
    LeaderChanged,
    NotEnoughReplicas,
    NotLeader,
    NotLoaded,
    OutOfOrderSequence,
    Overloaded,
    PeerLost,
    PeerOutOfReach,
    TooLarge,
    Unavailable,
)
from goqueue.base.limits import BUILD_BATCH_BYTES
from goqueue.base.topic_config import TopicConfig
from goqueue.core.dedupe import BATCHES_KEPT, SEQUENCE_MAX
from goqueue.drive.topic_table import Topic
from goqueue.service.producer_slots import ProducerSlots, Slot

_NOT_STORED: Final = (
    DiskFull,
    Forbidden,
    Invalid,
    NotEnoughReplicas,
    NotLeader,
    NotLoaded,
    Overloaded,
    PeerOutOfReach,
    TooLarge,
)
_RECORD_BYTES: Final = 128  # beside key, value and headers
_HEADER_BYTES: Final = 32


def is_unsure(result: PublishResult | BaseException) -> bool:
    """An error after which it may be stored all the same."""
    if isinstance(result, LeaderChanged):
        return True
    return isinstance(result, BaseException) and not isinstance(result, _NOT_STORED)


class RepeatablePublish:
    """Of the messages of one publish, by their places. `begin` first, `end` at last."""

    def __init__(self, slots: ProducerSlots, topic: Topic, messages: Mapping[int, InputMessage]) -> None:
        self._slots = slots
        self._topic_id = topic.record.id
        self._messages = messages
        self._chosen = _repeatable(topic.config, messages)
        self._held: dict[int, Slot] = {}  # by partition
        self._unsure: dict[int, GoQueueError] = {}  # by place, since the first time

    async def begin(self) -> None:
        try:
            for partition in sorted({self._partition(place) for place in self._chosen}):
                await self._take(partition)
        except BaseException:
            self.end({})
            raise

    async def _take(self, partition: int) -> None:
        slot = await self._slots.take((self._topic_id, partition))
        if slot is not None:
            self._held[partition] = slot

    @property
    def places(self) -> list[int]:
        """Of messages that can be sent again."""
        return [place for place in self._chosen if self._partition(place) in self._held]

    def identities(self, places: Iterable[int]) -> tuple[BatchIdentity, ...]:
        partitions = sorted({self._partition(place) for place in places})
        slots = [(partition, self._held[partition]) for partition in partitions if partition in self._held]
        return tuple(BatchIdentity(partition, slot.producer_id, slot.sequence) for partition, slot in slots)

    # --- after every try -------------------------------------------------------------------------------------

    def failed(self, places: Iterable[int], error: BaseException) -> None:
        """Nobody answered for these."""
        if is_unsure(error):
            lost = error if isinstance(error, GoQueueError) else PeerLost("The node leads no more.")
            for place in places:
                self._unsure.setdefault(place, lost)

    async def told(self, places: Sequence[int], found: Sequence[PublishResult]) -> list[PublishResult]:
        """What was answered. A partition whose log lost a slot's last batch, as it may if nobody waited for replicas,
        is asked again with another one."""
        broken = {
            self._partition(place)
            for place, result in zip(places, found, strict=True)
            if isinstance(result, OutOfOrderSequence)
        }
        for partition in broken:
            await self._renew(partition)
        again = NotLoaded("The partition's log does not go on where it was; try again in a moment.")
        results = [
            again if isinstance(result, GoQueueError) and self._partition(place) in broken else result
            for place, result in zip(places, found, strict=True)
        ]
        for place, result in zip(places, results, strict=True):
            if isinstance(result, GoQueueError) and is_unsure(result):
                self._unsure.setdefault(place, result)
        return results

    async def _renew(self, partition: int) -> None:
        self._slots.drop((self._topic_id, partition))
        del self._held[partition]
        await self._take(partition)

    # --- at last ---------------------------------------------------------------------------------------------

    def end(self, results: Mapping[int, PublishResult]) -> dict[int, PublishResult]:
        """Slots are free again, or gone. What may be stored is not said to have found nobody to store it."""
        for partition, slot in self._held.items():
            at, mine = (self._topic_id, partition), [one for one in self._chosen if self._partition(one) == partition]
            if all(place in results and not self._is_open(place, results[place]) for place in mine):
                stored = sum(isinstance(results[place], StoredAt) for place in mine)
                slot.sequence = (slot.sequence + stored) & SEQUENCE_MAX
                self._slots.give_back(at, slot)
            else:
                self._slots.drop(at)
        return {
            place: self._unsure.get(place, result) if isinstance(result, Unavailable) else result
            for place, result in results.items()
        }

    def _is_open(self, place: int, result: PublishResult) -> bool:
        """Whether it is stored is not known."""
        return isinstance(result, GoQueueError) and (is_unsure(result) or place in self._unsure)

    def _partition(self, place: int) -> int:
        return self._messages[place].partition or 0


def _repeatable(config: TopicConfig, messages: Mapping[int, InputMessage]) -> list[int]:
    """Those that go into the log at once, in few enough batches for all of them to be remembered."""
    if config.queue_delay_ms:
        return []
    parts: dict[int, list[int]] = {}
    for place, message in messages.items():
        if message.repeat is None and message.deliver_at_ms is message.delay_ms is None:
            parts.setdefault(message.partition or 0, []).append(place)
    pile_max = min(BUILD_BATCH_BYTES, config.max_message_bytes)
    return sorted(
        place
        for places in parts.values()
        if len(places) <= BATCHES_KEPT or sum(_size(messages[place]) for place in places) <= 2 * pile_max
        for place in places
    )


def _size(message: InputMessage) -> int:
    """At most; of two batches in a row one alone would hold more than half of this."""
    headers = sum(_HEADER_BYTES + 4 * len(name) + len(value or b"") for name, value in message.headers)
    return _RECORD_BYTES + len(message.key or b"") + len(message.value or b"") + headers
