"""Dead letters as they lie: browse, look at one, delete one, count. What was redriven or deleted is gone.

Which letters are gone is a queue view of its own, of a group that nobody can join. SQS's consumers of a dead-letter
topic have their own; what they deleted is gone too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.commands import Headers
from goqueue.base.errors import UnknownDeadLetter, UnknownTopic
from goqueue.base.fingerprints import fingerprint
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.limits import FINGERPRINTS_TOLD_MAX
from goqueue.base.priority import priority_of
from goqueue.base.tenants import full_name, tenant_of
from goqueue.core.dead_letter import KEEPER, DeadLetterFilter, StoredDeadLetter, letter_of
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.policy import DeadLetterTarget
from goqueue.core.delivery.records import ViewId
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.drive.partition import Partition
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.queue_rules import QueueRules
from goqueue.service.topics import Topics

_LOOKED_AT_MAX: Final = 50_000  # for one page; what fits further on comes with the next
_STRETCH: Final = 20  # letters between two pauses; to tell which error is alike takes up to 0.4 ms
_ERRORS_TOLD_APART_MAX: Final = 1_000
_EXAMPLE_CHARS_MAX: Final = 300

Cursor = tuple[int, Offset]


class LetterPage(msgspec.Struct, frozen=True):
    """`next` is where to go on; None at the end. A page may be short, even empty, before that."""

    letters: list[StoredDeadLetter]
    next: Cursor | None


class ErrorCount(msgspec.Struct, frozen=True):
    """Letters whose errors differ in numbers, ids and times alone; `example` is the first one's text."""

    fingerprint: str
    example: str
    count: int


class LetterStats(msgspec.Struct, frozen=True):
    """How many there are, by reason, group, origin and error; of errors the most frequent."""

    topic: str
    total: int
    by_reason: dict[str, int]
    by_group: dict[str, int]
    by_origin: dict[str, int]
    oldest_ms: int | None
    newest_ms: int | None
    fingerprints: list[ErrorCount] = []


def most_frequent(errors: Iterable[ErrorCount]) -> list[ErrorCount]:
    return sorted(errors, key=lambda one: (-one.count, one.fingerprint))[:FINGERPRINTS_TOLD_MAX]


class ErrorTally:
    """Counts errors that are alike; of too many different ones, those that come late are one."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, int]] = {}

    def add(self, text: str) -> None:
        known = fingerprint(text)
        if known not in self._found and len(self._found) >= _ERRORS_TOLD_APART_MAX:
            known, text = "other", ""
        example, count = self._found.get(known, (text[:_EXAMPLE_CHARS_MAX], 0))
        self._found[known] = example, count + 1

    def told(self) -> list[ErrorCount]:
        return most_frequent(ErrorCount(known, *rest) for known, rest in self._found.items())


class DeadLetterView:
    """`sqs_group` is the group that SQS's consumers share."""

    def __init__(
        self,
        runner: DeliveryShards,
        topics: Topics,
        rules: QueueRules,
        feeds: LaneReaders,
        clock: Clock,
        sqs_group: str,
    ) -> None:
        self._runner = runner
        self._topics = topics
        self._rules = rules
        self._feeds = feeds
        self._clock = clock
        self._sqs_group = sqs_group

    def home_of(self, topic: str) -> str:
        """The name of the topic's dead-letter topic, which may not be there yet."""
        name = self._rules.grave_topic(self._topics.require_users(topic))
        if name is None:
            raise UnknownTopic(f"{topic!r} holds dead letters itself; name the topic that they died in.", field="topic")
        if self._topics.find(name) is not None:
            self._topics.require_users(name)
        return name

    # --- look ------------------------------------------------------------------------------------------------

    def leads(self, partition: Partition) -> bool:
        """Whether this node leads it; other nodes know what became of the letters in others."""
        return self._runner.leads(partition.at)

    def _partitions(self, home: str, among: Sequence[int] | None) -> Sequence[Partition]:
        topic = self._topics.find(home)
        if topic is None or among is None:
            return [] if topic is None else topic.partitions
        return [topic.partition(number) for number in among]

    async def page(
        self,
        topic: str,
        chosen: DeadLetterFilter,
        begin: Cursor | None,
        limit: int,
        among: Sequence[int] | None = None,
    ) -> LetterPage:
        """Letters that fit, partition by partition, of these or of all, the oldest first."""
        found: list[StoredDeadLetter] = []
        looked_at = 0
        for partition in self._partitions(self.home_of(topic), among):
            number = partition.at.partition
            if begin is not None and number < begin[0]:
                continue
            first = begin[1] if begin is not None and number == begin[0] else 0
            async for letter in self.open(partition, first):
                if len(found) == limit or looked_at == _LOOKED_AT_MAX:
                    return LetterPage(found, (number, letter.offset))
                looked_at += 1
                if chosen.fits(letter):
                    found.append(letter)
        return LetterPage(found, None)

    async def show(self, topic: str, number: int, offset: Offset) -> StoredDeadLetter:
        """`UnknownDeadLetter` if it is not there, or no more."""
        return await self._find(self.home_of(topic), number, offset)

    async def stats(self, topic: str, among: Sequence[int] | None = None) -> LetterStats:
        """Of these partitions, or of all."""
        name = self.home_of(topic)
        reasons, groups, origins = Counter[str](), Counter[str](), Counter[str]()
        times: list[int] = []
        errors = ErrorTally()
        for partition in self._partitions(name, among):
            async for letter in self.open(partition, 0):
                if letter.topic in (None, topic):
                    reasons[letter.reason] += 1
                    errors.add(letter.text)
                    groups[letter.group] += 1
                    origins[letter.topic or ""] += 1
                    died_ms = letter.died_ms or letter.buried_ms
                    times = [min([died_ms, *times]), max([died_ms, *times])]
        oldest, newest = times if times else (None, None)
        return LetterStats(
            name, reasons.total(), dict(reasons), dict(groups), dict(origins), oldest, newest, errors.told()
        )

    async def open(
        self, partition: Partition, begin: Offset, end: Offset | None = None
    ) -> AsyncIterator[StoredDeadLetter]:
        """The letters that are still there, from an offset on."""
        keeper = self.keeper(partition)
        begin = max(begin, keeper.done_below, partition.start_offset)
        count = 0
        async for record in self._feeds.of(partition).everything(begin):
            if end is not None and record.offset >= end:
                return
            count += 1
            if count % _STRETCH == 0:
                await asyncio.sleep(0)  # others get their turn
            if keeper.is_open(record.offset) and not self._is_done_by_sqs(partition, record.offset, record.headers):
                yield letter_of(partition.at.topic, partition.at.partition, record)

    async def _find(self, home: str, number: int, offset: Offset) -> StoredDeadLetter:
        topic = self._topics.find(home)
        if topic is not None and number < len(topic.partitions):
            partition = topic.partitions[number]
            record = (await self._feeds.of(partition).at([offset]))[offset] if self.has(partition, offset) else None
            if record is not None and not self._is_done_by_sqs(partition, offset, record.headers):
                return letter_of(home, number, record)
        raise UnknownDeadLetter(
            f"There is no dead letter at {number}/{offset} of {home!r}; it may have been redriven or deleted.",
            field="offset",
        )

    def count(self, partition: Partition, begin: Offset, end: Offset) -> int:
        """How many letters there are between two offsets, at most."""
        keeper = self.keeper(partition)
        begin = max(begin, keeper.done_below, partition.start_offset)
        return max(0, end - begin - keeper.done_between(begin, end))

    def has(self, partition: Partition, offset: Offset) -> bool:
        return partition.start_offset <= offset < partition.end_offset and self.keeper(partition).is_open(offset)

    # --- delete ----------------------------------------------------------------------------------------------

    async def delete(self, topic: str, number: int, offset: Offset) -> None:
        """Gone for ever when this returns."""
        home = self.home_of(topic)
        await self._find(home, number, offset)
        partition = self._topics.require(home).partition(number)
        if not self.has(partition, offset):
            await self._find(home, number, offset)
        keeper = self.keeper_to_write(partition)
        self._runner.write(keeper, keeper.discard(offset))
        self.tell_sqs(partition)
        await self._runner.wait_durable([partition.at])

    # --- redrive ---------------------------------------------------------------------------------------------

    def pull(
        self, partition: Partition, offsets: Iterable[Offset], dead_letter_target: DeadLetterTarget, task: str
    ) -> None:
        """These go; `Transfer` makes the copies."""
        keeper = self.keeper_to_write(partition)
        self._runner.write(keeper, keeper.pull(offsets, dead_letter_target, task, self._clock.now_ms()))

    def redriven(self, partition: Partition, task: str) -> int:
        """How many of the partition's letters a redrive moved; known for the last redrive."""
        return self.keeper(partition).redriven_by(task)

    # --- whose view ------------------------------------------------------------------------------------------

    def keeper(self, partition: Partition) -> Delivery:
        """The view that says what is gone."""
        view = ViewId(KEEPER, partition.at.topic, partition.at.partition)
        return self._runner.view(view)

    def keeper_to_write(self, partition: Partition) -> Delivery:
        delivery = self._runner.view(ViewId(KEEPER, partition.at.topic, partition.at.partition))
        if delivery.done_below < partition.start_offset:
            self._runner.write(delivery, delivery.pass_to(partition.start_offset))
        return self._runner.view(delivery.view)

    def is_in_flight(self, partition: Partition, offset: Offset) -> bool:
        """Whether an SQS consumer has it."""
        delivery = self._runner.find(self._sqs_view(partition.at))
        return delivery is not None and delivery.is_in_flight(offset)

    def tell_sqs(self, partition: Partition) -> None:
        """A queue's consumers need not look at what is gone at the head."""
        delivery = self._runner.find(self._sqs_view(partition.at))
        if delivery is None or not (delivery.tracks_nothing and delivery.is_plain):
            return
        keeper = self.keeper(partition)
        begin = delivery.done_below
        end = keeper.done_to(max(begin, keeper.done_below))
        if end > begin:
            self._runner.write(delivery, delivery.pass_to(end))

    def _sqs_view(self, at: TopicPartition) -> ViewId:
        return ViewId(full_name(tenant_of(at.topic), self._sqs_group), at.topic, at.partition)

    def _is_done_by_sqs(self, partition: Partition, offset: Offset, headers: Headers) -> bool:
        delivery = self._runner.find(self._sqs_view(partition.at))
        return delivery is not None and delivery.is_done(priority_of(headers), offset)


def cursor_of(text: str) -> Cursor | None:
    """Reads `partition:offset`; None if it is not that."""
    number, colon, offset = text.partition(":")
    if not colon or not number.isdecimal() or not offset.isdecimal() or len(text) > 40:
        return None
    return int(number), int(offset)
