"""Traces of what is published: at once, later, in a transaction. Most messages are not traced, and cost nothing here.

A batch that comes encoded is never changed and, as a rule, not decoded: which of its messages are traced follows from
their offsets. It is searched for the header `traceparent`, and decoded only if somebody marked a message as sampled.
Messages that the broker encodes itself carry the header from then on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec.structs import replace

from goqueue.base.entropy import Entropy
from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.limits import DECODE_HERE_BYTES
from goqueue.base.trace_context import TRACEPARENT, TraceContext, context_of, with_context
from goqueue.core.schedule.due import Member
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.core.traces.sampling import WHOLE, Identities, chosen, is_chosen, phase_of
from goqueue.core.traces.span import CANCELLED, DELAY_EXPIRED, PERSISTED, READY, SCHEDULED, key_text
from goqueue.core.txn.records import ENDING, IDLE, TxnStage, TxnState
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic, TopicTable
from goqueue.format.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.format.compression import decompress_within
from goqueue.format.records import NewRecord
from goqueue.format.search import has
from goqueue.format.slices import readable, slices
from goqueue.service.trace_transactions import TracedTransactions
from goqueue.service.tracer import Published, PublishedBatch, Sampled, Steps, Tracer, sampled_of

_NEEDLE: Final = TRACEPARENT.encode()
_MARKED: Final = re.compile(rb"\x16traceparent\x6e[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]")
_LONGER: Final = re.compile(rb"\x16traceparent[^\x6e]")  # another length: of a version that is yet to come
_ADDED_BYTES: Final = 120  # what the header adds to a message at most
_MARKED_MAX: Final = 5_000  # records of one batch that are looked at
_MILLION: Final = 1_000_000

Moments = tuple[float, float]  # when a publish came in and when it was checked, by the performance counter


class Tracing:
    """For `Publish` and the schedule."""

    def __init__(self, tracer: Tracer, table: TopicTable, entropy: Entropy) -> None:
        self.tracer = tracer
        self.transactions = TracedTransactions(tracer)
        self._table = table
        self._entropy = entropy
        self._newest: str | None = None

    def take_newest(self) -> str | None:
        """The id of a trace that was recorded since this was last asked; None if none was."""
        newest, self._newest = self._newest, None
        return newest

    # --- messages in the open ------------------------------------------------------------------------------

    def stamp(
        self, topic: Topic, partition: Partition, records: list[NewRecord], size: int
    ) -> tuple[list[NewRecord], list[Sampled]]:
        """Just before they are stored: gives those that are chosen the header, as long as the batch does not outgrow
        the topic's limit. Returns the records and those of them that are traced."""
        share = self.tracer.share(topic)
        if share is None or not (share or any(record.headers for record in records)):
            return records, []
        room = topic.config.max_message_bytes - size
        first, phase = partition.end_offset, phase_of(topic.record.id, partition.at.partition)
        stamped, sampled = records, list[Sampled]()
        for offset, record in enumerate(records, first):
            found = context_of(record.headers) if record.headers else None
            if found is not None:
                if found.is_sampled:
                    sampled.append(sampled_of(offset, record.key, found))
            elif share and is_chosen(offset, share, phase) and room >= _ADDED_BYTES:
                room -= _ADDED_BYTES
                context = Identities(topic.record.id, partition.at.partition).of(offset)
                sampled.append(Sampled(offset, context, True, key_text(record.key)))
                stamped = list(records) if stamped is records else stamped
                stamped[offset - first] = replace(record, headers=with_context(record.headers, context))
        return stamped, sampled

    def published(
        self, topic: Topic, partition: int, sampled: list[Sampled], moments: Moments, door: str, producer_id: int = -1
    ) -> None:
        """These are in the log now."""
        self._record(topic, partition, sampled, moments, door, producer_id=producer_id)

    # --- encoded batches -----------------------------------------------------------------------------------

    def wrote(
        self, topic: Topic, at: TopicPartition, base: Offset, header: BatchHeader, batch: Buffer, moments: Moments
    ) -> None:
        """A batch is in the log, as its producer sent it."""
        share = self.tracer.share(topic)
        if share is None:
            return
        producer_id = header.producer_id if header.is_transactional else -1
        body = self._searched(topic, header, batch)
        if body is not None and has(body, _NEEDLE):
            sampled = self._marked(base, header, batch, body)
            self._record(topic, at.partition, sampled, moments, "kafka", producer_id=producer_id)
        elif share and header.record_count > header.last_offset_delta:
            phase = phase_of(topic.record.id, at.partition)
            offsets = chosen(base, base + header.last_offset_delta, share, phase)
            if producer_id < 0:
                self._record_batch(topic, at.partition, offsets, moments)
            else:  # their transaction has an end, which is told of each
                identities = Identities(topic.record.id, at.partition)
                sampled = [Sampled(offset, identities.of(offset), True) for offset in offsets]
                self._record(topic, at.partition, sampled, moments, "kafka", producer_id=producer_id)

    def _record_batch(self, topic: Topic, partition: int, offsets: Sequence[Offset], moments: Moments) -> None:
        fits = self.tracer.recorder.room(len(offsets)) if offsets else 0
        if fits:
            where = (topic.name, topic.record.id, partition)
            self._newest = Identities(topic.record.id, partition).trace_id(offsets[0])
            batch = PublishedBatch(*where, self._steps(moments), "kafka", offsets[:fits])
            self.tracer.recorder.add_many(batch)

    def _searched(self, topic: Topic, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """The records' bytes. Compressed ones are unfolded only where the topic itself asks for traces."""
        if not header.codec:
            return batch
        if topic.config.trace == "default":
            return None
        try:
            return decompress_within(header.codec, memoryview(batch)[HEADER_BYTES:], DECODE_HERE_BYTES)
        except CorruptBatch:
            return None

    def _marked(self, base: Offset, header: BatchHeader, batch: Buffer, body: Buffer) -> list[Sampled]:
        """Messages that their producers marked as sampled."""
        if _MARKED.search(body) is None and _LONGER.search(body) is None:
            return []
        if self.tracer.recorder.is_full:
            self.tracer.recorder.room(len(_MARKED.findall(body)), 4)
            return []
        sampled: list[Sampled] = []
        marked = (one for one in slices(batch, header, 0, body if header.codec else None) if has(one.batch, _NEEDLE))
        for record in islice(readable(marked), _MARKED_MAX):
            found = context_of(record.headers) if record.headers else None
            if found is not None and found.is_sampled:
                sampled.append(sampled_of(base + record.offset - header.base_offset, record.key, found))
        return sampled

    def _record(
        self,
        topic: Topic,
        partition: int,
        sampled: Sequence[Sampled],
        moments: Moments,
        door: str,
        *,
        waits: bool = False,
        producer_id: int = -1,
    ) -> None:
        """As many of them as there is room for."""
        each = 3 if waits else 4 + (producer_id >= 0)
        fits = self.tracer.recorder.room(len(sampled), each) if sampled else 0
        if fits:
            self._newest = sampled[0].context.trace_id
            ids = self.tracer.ids.take(each * fits)
            fixed = (topic.name, partition, self._steps(moments), door, ids)
            self.tracer.recorder.add_many(Published(*fixed, sampled[:fits], waits, producer_id))
            if producer_id >= 0:
                self.transactions.added(producer_id, topic.name, partition, sampled[:fits])

    def _steps(self, moments: Moments) -> Steps:
        now, counter = self.tracer.now_ns(), time.perf_counter()
        received, checked = (now - round(max(0.0, counter - moment) * 1e9) for moment in moments)
        return Steps(received, checked, now)

    # --- delayed messages ----------------------------------------------------------------------------------

    def take_in(
        self, topic: Topic, entries: Sequence[ScheduleEntry], moments: Moments, door: str
    ) -> list[ScheduleEntry]:
        """Just before they wait: those that are chosen get the header. Returns the entries."""
        share = self.tracer.share(topic)
        if share is None:
            return list(entries)
        stamped: list[ScheduleEntry] = []
        sampled: dict[int, list[Sampled]] = {}
        for entry in entries:
            found = context_of(entry.headers)
            is_root = found is None and self._draws(share)
            if is_root:
                found = self._new_context()
                entry = replace(entry, headers=with_context(entry.headers, found))
            if found is not None and found.is_sampled:
                one = Sampled(-1, found, is_root, key_text(entry.key))
                sampled.setdefault(entry.partition, []).append(one)
            stamped.append(entry)
        for partition, some in sampled.items():
            self._record(topic, partition, some, moments, door, waits=True)
        return stamped

    def _draws(self, share: int) -> bool:
        if share in (0, WHOLE):
            return share == WHOLE
        return int.from_bytes(self._entropy.token(4), "big") % WHOLE < share

    def _new_context(self) -> TraceContext:
        token = self._entropy.token(24).hex()
        return TraceContext(token[:32], token[32:])

    def scheduled(self, offsets: Sequence[Offset], entries: Sequence[ScheduleEntry]) -> None:
        """These wait now."""
        for offset, entry in zip(offsets, entries, strict=True):
            if (found := self._of_entry(entry)) is not None:
                told: dict[str, str | int] = {"scheduled": offset, "deliver_at": entry.due_ms}
                self.tracer.emit(SCHEDULED, found[1], found[0], entry.partition, key=key_text(entry.key), more=told)

    def ready(self, members: Sequence[Member], end_offset: Offset) -> None:
        """These entered their log, in one batch that ends there."""
        for offset, (due, entry) in enumerate(members, end_offset - len(members)):
            if (found := self._of_entry(entry)) is not None:
                at = (found[1], found[0], entry.partition, offset)
                told: dict[str, str | int] = {"scheduled": due.offset, "deliver_at": due.due_ms}
                self.tracer.emit(READY, *at, start_ns=entry.accepted_ms * _MILLION, key=key_text(entry.key), more=told)
                self.tracer.emit(PERSISTED, *at, key=key_text(entry.key))

    def expired(self, members: Sequence[Member]) -> None:
        """The time to live of these was over before they were due."""
        for due, entry in members:
            self._ended(DELAY_EXPIRED, due.offset, entry)

    def cancelled(self, offset: Offset, entry: ScheduleEntry | None) -> None:
        """Nobody will see it."""
        if entry is not None:
            self._ended(CANCELLED, offset, entry)

    def _ended(self, name: str, offset: Offset, entry: ScheduleEntry) -> None:
        if (found := self._of_entry(entry)) is not None:
            began = entry.accepted_ms * _MILLION
            at = (found[1], found[0], entry.partition)
            self.tracer.emit(name, *at, start_ns=began, key=key_text(entry.key), more={"scheduled": offset})

    def _of_entry(self, entry: ScheduleEntry) -> tuple[str, TraceContext] | None:
        """Its topic and its trace, if it has one."""
        context = context_of(entry.headers) if entry.headers else None
        topic = None if context is None else self._table.get(self._table.name_of(entry.topic_id) or "")
        if context is None or not context.is_sampled or topic is None or self.tracer.share(topic) is None:
            return None
        return topic.name, context

    # --- transactions --------------------------------------------------------------------------------------

    def transaction_changed(self, before: TxnState | None, after: TxnState | None) -> None:
        was = before.stage if before is not None else TxnStage.EMPTY
        stage = after.stage if after is not None else TxnStage.EMPTY
        if after is not None and stage in ENDING and was not in ENDING:
            self.transactions.prepared(after.producer_id, after.transactional_id, after.commits)
        elif before is not None and was in ENDING and stage in IDLE:
            self.transactions.ended(before.producer_id, before.transactional_id, before.commits)
