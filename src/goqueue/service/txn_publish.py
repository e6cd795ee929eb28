"""Publishing inside a transaction, for doors that hand over messages in the open: all of a request, or nothing.

The broker numbers the batches. A client that numbers its requests can send one again: where its messages go is written
down with the number before they are stored, so the repetition is answered as before and stores only what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from goqueue.base.commands import ANYONE, Caller, InputMessage, PublishMessages, PublishResult, ScheduledAt, StoredAt
from goqueue.base.errors import InvalidField, Overloaded
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import TXN_DELAYED_BYTES_MAX
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.core.txn.moves import More, call_of
from goqueue.core.txn.records import TxnBatch, TxnCall, TxnDelayed, TxnState, TxnWait
from goqueue.drive.txn_coordinators import TransactionCoordinators
from goqueue.format.records import NewRecord
from goqueue.service.publish import Publish
from goqueue.service.sorting import SortedMessages
from goqueue.service.topics import Topics
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_store import NumberedBatch, TransactionStores


class TopicMessages(msgspec.Struct, frozen=True):
    """Messages for one topic."""

    topic: str
    messages: Sequence[InputMessage]


class PublishInTransaction(msgspec.Struct, frozen=True):
    """Publish into the producer's open transaction. Places count through all parts."""

    transactional_id: str
    producer_id: int
    epoch: int
    parts: Sequence[TopicMessages]
    sequence: int | None = None
    caller: Caller = ANYONE

    @property
    def who(self) -> tuple[str, int, int]:
        return self.transactional_id, self.producer_id, self.epoch

    @property
    def messages(self) -> list[InputMessage]:
        return [message for part in self.parts for message in part.messages]


class TransactionalPublish:
    """The verb."""

    def __init__(
        self,
        coordinators: TransactionCoordinators,
        transactions: TransactionVerbs,
        publish: Publish,
        topics: Topics,
        stores: TransactionStores,
    ) -> None:
        self._coordinators = coordinators
        self._transactions = transactions
        self._publish = publish
        self._topics = topics
        self._stores = stores

    async def publish(self, command: PublishInTransaction) -> list[PublishResult]:
        """One result for each message, in order; the first mistake is raised, and nothing is stored then."""
        async with self._coordinators.of(command.transactional_id).alone(command.transactional_id):
            state = self._transactions.check_open(command.who)
            call = None if command.sequence is None else call_of(state, command.sequence)
            if call is None:
                call, records = await self._take(command, state)
                return await self._store(command, call, records)
            if call.count != len(command.messages):
                raise InvalidField("Another publish had this sequence; number them on.", field="sequence")
            return await self._store(command, call, [])

    # --- a new request ---------------------------------------------------------------------------------------

    async def _take(self, command: PublishInTransaction, state: TxnState) -> tuple[TxnCall, list[list[NewRecord]]]:
        """Decides where everything goes, and writes down what has to be known before it is stored."""
        plans = [await self._plan(part, command.caller, place) for part, place in _parts(command)]
        batches = tuple([one async for one in self._batches(command, plans)])
        entries = [one.entry for plan, _ in plans for one in plan.delayed]
        waits = tuple(
            TxnWait(base + one.place, one.entry.partition, one.entry.due_ms)
            for plan, base in plans
            for one in plan.delayed
        )
        call = TxnCall(command.sequence or 0, len(command.messages), batches, waits)
        more = More(
            partitions=[(one.topic, one.partition) for one in batches],
            call=call if command.sequence is not None else None,
            delayed=self._delayed(command, state, entries) if entries else None,
        )
        await self._transactions.add_alone(command.who, more, begins=False)
        return call, [pile.records for plan, _ in plans for pile in plan.piles]

    async def _plan(self, part: TopicMessages, caller: Caller, place: int) -> tuple[SortedMessages, int]:
        plan = await self._publish.plan(PublishMessages(part.topic, part.messages, caller=caller))
        for error in plan.errors:
            raise error
        return plan, place

    async def _batches(
        self, command: PublishInTransaction, plans: Sequence[tuple[SortedMessages, int]]
    ) -> AsyncIterator[TxnBatch]:
        used: dict[TopicPartition, int] = {}
        for plan, base in plans:
            for pile in plan.piles:
                at = plan.topic.partition(pile.partition).at
                sequence = used.get(at)
                if sequence is None:
                    sequence = await self._stores.next_sequence(at, command.producer_id, command.epoch)
                used[at] = sequence + len(pile.places)
                places = tuple(base + place for place in pile.places)
                yield TxnBatch(plan.topic.name, pile.partition, sequence, places)

    def _delayed(self, command: PublishInTransaction, state: TxnState, entries: list[ScheduleEntry]) -> TxnDelayed:
        delayed = TxnDelayed(command.transactional_id, command.epoch, state.delayed, entries)
        if self._coordinators.delayed_bytes + delayed.size > TXN_DELAYED_BYTES_MAX:
            raise Overloaded("Open transactions hold too many delayed messages; try again when some are over.")
        return delayed

    # --- storing ---------------------------------------------------------------------------------------------

    async def _store(
        self, command: PublishInTransaction, call: TxnCall, made: Sequence[list[NewRecord]]
    ) -> list[PublishResult]:
        """`made` are the batches' records, or nothing if they have to be made (again)."""
        messages = command.messages
        results: list[PublishResult | None] = [None] * len(messages)
        parts: dict[TopicPartition, list[int]] = {}  # batches by their partitions
        for number, batch in enumerate(call.batches):
            parts.setdefault(TopicPartition(batch.topic, batch.partition), []).append(number)

        def numbered(number: int) -> NumberedBatch:
            batch = call.batches[number]
            topic = self._topics.require(batch.topic)
            again = (self._publish.record(topic, messages[place]) for place in batch.places)
            return NumberedBatch(batch.base_sequence, made[number] if made else list(again))

        async def store(at: TopicPartition, numbers: list[int]) -> None:
            batches = [numbered(number) for number in numbers]
            who = (command.producer_id, command.epoch)
            for number, offset in zip(
                numbers, await self._stores.store(at, *who, batches, command.caller), strict=True
            ):
                for delta, place in enumerate(call.batches[number].places):
                    results[place] = StoredAt(at.partition, offset + delta)

        if len(parts) == 1:
            await store(*parts.popitem())
        else:
            await asyncio.gather(*(store(*part) for part in parts.items()))
        for wait in call.delayed:
            results[wait.place] = ScheduledAt(wait.partition, -1, wait.due_ms)
        return results  # type: ignore[return-value]


def _parts(command: PublishInTransaction) -> Iterator[tuple[TopicMessages, int]]:
    place = 0
    for part in command.parts:
        yield part, place
        place += len(part.messages)
