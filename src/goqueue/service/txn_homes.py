"""Which shard each part of a transaction's end belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from goqueue.base.errors import InvalidReceipt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import parse_receipt
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.core.txn.effects import AnswerLeased, CommitOffsets, ReturnLeased, ScheduleDelayed, TxnEffect, WriteMarker
from goqueue.drive.per_shard import ShardMap

T = TypeVar("T")


class TransactionHomes:
    """Of partitions, groups, leases and delayed messages. What is nowhere any more is asked of shard 0, which says so
    as any other would."""

    def __init__(self, shards: ShardMap, name_of: Callable[[str], str | None]) -> None:
        """`name_of` finds a topic's name by its id."""
        self._shards = shards
        self._name_of = name_of

    def parts(self, effect: TxnEffect) -> Iterator[tuple[int, TxnEffect]]:
        """The effect in parts, one for each shard that has something to do."""
        match effect:
            case WriteMarker():
                yield self._shards.of_partition(TopicPartition(effect.topic, effect.partition)), effect
            case CommitOffsets():
                yield self._shards.of_id(effect.group), effect
            case AnswerLeased() | ReturnLeased():
                for shard, places in self.receipts(effect.receipts).items():
                    yield shard, replace(effect, receipts=tuple(effect.receipts[place] for place in places))
            case ScheduleDelayed():
                for shard, entries in _sorted(effect.entries, self._of_entry).items():
                    yield shard, replace(effect, entries=tuple(entries))

    def receipts(self, receipts: Sequence[str]) -> dict[int, list[int]]:
        """By shard, as places in the sequence."""
        return _sorted(range(len(receipts)), lambda place: self._of_receipt(receipts[place]))

    def partitions(self, places: Iterable[tuple[str, int]]) -> dict[int, list[tuple[str, int]]]:
        return _sorted(places, lambda place: self._shards.of_partition(TopicPartition(*place)))

    def _of_receipt(self, text: str) -> int:
        try:
            found = parse_receipt(text)
        except InvalidReceipt:
            return 0
        return self._shards.of_partition(TopicPartition(found.topic, found.partition))

    def _of_entry(self, entry: ScheduleEntry) -> int:
        return self._shards.of_partition(TopicPartition(self._name_of(entry.topic_id) or "", entry.partition))


def _sorted(many: Iterable[T], shard_of: Callable[[T], int]) -> dict[int, list[T]]:
    found: dict[int, list[T]] = {}
    for one in many:
        found.setdefault(shard_of(one), []).append(one)
    return found
