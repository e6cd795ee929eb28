"""`watched_lives`: when a broker in virtual time stops, what it told its clients and what it shows to readers has to be
a history that can be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from weakref import WeakKeyDictionary

import msgspec
import pytest

from goqueue.base.commands import Appended, Browse, Fetch, FetchFrom, Isolation, PublishBatch, PublishResult, StoredAt
from goqueue.broker import Broker
from goqueue.core.txn.records import TxnState
from goqueue.core.txn.staged import NamedWriter
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.control import is_commit
from goqueue.format.records import decode
from goqueue.log.recovery import Recovered
from goqueue.service.staged import StagedSetEnded
from goqueue.service.txn_publish import PublishInTransaction
from tests.txn.checker import Violation, check
from tests.txn.history import FINAL, History, Outcome
from tests.txn.world import kept_of

_PAGE = 3  # small, so that the ends of pages fall inside transactions
_BYTES = 8 << 20


class Told(msgspec.Struct, frozen=True):
    """A message that a producer was told to be in the log, and in which of its transactions."""

    txn: str
    producer_id: int
    value: bytes | None


class InLog(msgspec.Struct, frozen=True):
    """A message that is in the log; `outcome` is what the marker behind it says, if there is one."""

    name: str
    value: bytes | None
    is_transactional: bool
    outcome: Outcome | None


class Life:
    """What one broker told its clients from its start on."""

    def __init__(self, on_stored: Callable[[], None]) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.told: dict[Partition, dict[int, Told]] = defaultdict(dict)
        self._on_stored = on_stored
        self._ends: Counter[tuple[int, int]] = Counter()  # an epoch may have many transactions, one after the other

    def take_over(self, broker: Broker) -> None:
        """After the start: what former lives left open is part of transactions that may end in this one."""
        for partition in partitions_of(broker):
            open_ = partition.state.txns.open
            for batch in partition.log.batches(min(open_.values())) if open_ else ():
                header = read_header(batch)
                first = open_.get(header.producer_id)
                if first is not None and header.base_offset >= first:
                    txn = self.txn(header.producer_id, header.producer_epoch)
                    for record in decode(batch):
                        self.told[partition][record.offset] = Told(txn, header.producer_id, record.value)

    def txn(self, producer_id: int, epoch: int) -> str:
        """The one that is open, or the next."""
        return f"{producer_id}.{epoch}.{self._ends[producer_id, epoch]}"

    def stored(self, partition: Partition, offset: int, told: Told) -> None:
        self._on_stored()
        self.told[partition].setdefault(offset, told)  # a batch may be sent again, even after its transaction

    def ended(self, producer_id: int, epoch: int, outcome: Outcome) -> None:
        self.outcomes[self.txn(producer_id, epoch)] = outcome
        self._ends[producer_id, epoch] += 1


def listen(broker: Broker, life: Life) -> None:
    """All that clients in virtual time do in transactions comes past here."""
    batch, publish = broker.publish.batch, broker.txn_publish.publish
    end, commit_staged = broker.transactions.end, broker.staged.commit

    async def batch_heard(command: PublishBatch) -> Appended:
        appended = await batch(command)
        header = read_header(command.batch)
        if header.is_transactional:
            txn = life.txn(header.producer_id, header.producer_epoch)
            partition = broker.topics.require(command.at.topic).partition(command.at.partition)
            for offset, record in enumerate(decode(command.batch), appended.base_offset):
                life.stored(partition, offset, Told(txn, header.producer_id, record.value))
        return appended

    async def publish_heard(command: PublishInTransaction) -> list[PublishResult]:
        results = await publish(command)
        txn = life.txn(command.producer_id, command.epoch)
        topics = [part.topic for part in command.parts for _ in part.messages]
        for topic, message, result in zip(topics, command.messages, results, strict=True):
            if isinstance(result, StoredAt):
                partition = broker.topics.require(topic).partition(result.partition)
                life.stored(partition, result.offset, Told(txn, command.producer_id, message.value))
        return results

    async def end_heard(name: str, producer_id: int, epoch: int, commit: bool, bump: bool = False) -> TxnState:
        state = await end(name, producer_id, epoch, commit, bump)
        life.ended(producer_id, epoch, Outcome.COMMITTED if commit else Outcome.ABORTED)
        return state

    async def commit_heard(owner: str, batch: int, named: Sequence[NamedWriter]) -> StagedSetEnded:
        ended = await commit_staged(owner, batch, named)
        for one in named if ended.outcome == "committed" else ():
            life.ended(one.producer_id, one.epoch, Outcome.COMMITTED)
        return ended

    broker.publish.batch = batch_heard  # type: ignore[method-assign]
    broker.txn_publish.publish = publish_heard  # type: ignore[method-assign]
    broker.transactions.end = end_heard  # type: ignore[method-assign, assignment]
    broker.staged.commit = commit_heard  # type: ignore[method-assign]


# --- the history of a life -----------------------------------------------------------------------------------


def partitions_of(broker: Broker) -> list[Partition]:
    return [partition for topic in broker.topics.all() for partition in topic.partitions]


async def history_of(broker: Broker, life: Life) -> tuple[History, int]:
    """What its producers were told and what its logs hold, beside what readers of committed data see.

    Answers also with how many messages of transactions are in the logs.
    """
    history, count = History(), 0
    for partition in partitions_of(broker):
        log = _log(partition)
        if not log and partition not in life.told:
            continue
        count += sum(one.is_transactional for one in log.values())
        _note_writes(history, partition, log, life)
        for reader, bytes_max in ((FINAL, _BYTES), ("a batch at a time", 1)):
            async for found in _fetched(broker, partition, bytes_max):
                _note_poll(history, reader, partition, log, found)
        async for found in _browsed(broker, partition):
            _note_poll(history, "page by page", partition, log, found)
    for txn, outcome in life.outcomes.items():
        history.ended(txn, outcome)
    return history, count


def _log(partition: Partition) -> dict[int, InLog]:
    """A message of a producer is named by its sequence: the same one twice is one message in two places."""
    found: dict[int, InLog] = {}
    open_: dict[int, list[int]] = defaultdict(list)
    for batch in partition.log.batches(partition.log.start_offset):
        header = read_header(batch)
        if header.is_control:
            outcome = Outcome.COMMITTED if is_commit(batch) else Outcome.ABORTED
            for offset in open_.pop(header.producer_id, []):
                found[offset] = msgspec.structs.replace(found[offset], outcome=outcome)
            continue
        for record in decode(batch):
            name = f"{partition.at} at {record.offset}"
            if header.producer_id >= 0 and header.base_sequence >= 0:
                sequence = header.base_sequence + record.offset - header.base_offset
                name = f"{partition.at} {header.producer_id}.{header.producer_epoch}.{sequence}"
            outcome_now = None if header.is_transactional else Outcome.COMMITTED
            found[record.offset] = InLog(name, record.value, header.is_transactional, outcome_now)
            if header.is_transactional:
                open_[header.producer_id].append(record.offset)
    return found


def _note_writes(history: History, partition: Partition, log: dict[int, InLog], life: Life) -> None:
    where, told = partition.at, life.told.get(partition, {})
    limit = partition.state.read_limit(Isolation.READ_COMMITTED)
    dropped_to = max(partition.log.start_offset, partition.log.notes.meta.compacted_to)  # by retention or compaction
    for offset in sorted(log.keys() | told.keys()):
        there, one = log.get(offset), told.get(offset)
        is_due = offset < limit or (one is not None and _is_late(partition, offset, one, life))
        if not is_due or (there is None and offset < dropped_to):
            continue
        txn = one.txn if one else f"{where} at {offset}"
        is_it = there is not None and (one is None or one.value == there.value)
        history.wrote(txn, where, there.name if there and is_it else f"{where} at {offset} of {txn}", offset)
        if there and (there.outcome or offset >= dropped_to):
            history.ended(txn, there.outcome or Outcome.ABORTED)  # nobody committed it, so nobody may see it


def _is_late(partition: Partition, offset: int, one: Told, life: Life) -> bool:
    """Its producer heard that it is over, and it holds readers back; what others hold back may well be over."""
    return one.txn in life.outcomes and partition.state.txns.open.get(one.producer_id, offset + 1) <= offset


def _note_poll(
    history: History, reader: str, at: Partition, log: dict[int, InLog], found: list[tuple[int, bytes | None]]
) -> None:
    def name(offset: int, value: bytes | None) -> str:
        there = log.get(offset)
        return there.name if there and there.value == value else f"{at.at} at {offset}, and not in the log"

    history.polled(reader, [(at.at, offset, name(offset, value)) for offset, value in found])


async def _fetched(
    broker: Broker, partition: Partition, bytes_max: int
) -> AsyncIterator[list[tuple[int, bytes | None]]]:
    """As Kafka's clients read."""
    offset = partition.log.start_offset
    while True:
        asked = Fetch([FetchFrom(partition.at, offset, bytes_max)], bytes_max, isolation=Isolation.READ_COMMITTED)
        (answer,) = await broker.fetching.fetch(asked)
        if answer.error is not None:
            raise answer.error
        if not answer.batches:
            return
        kept, after = kept_of(answer)
        yield [(one.offset, one.value) for batch in kept for one in decode(batch) if one.offset >= offset]
        offset = after


async def _browsed(broker: Broker, partition: Partition) -> AsyncIterator[list[tuple[int, bytes | None]]]:
    """As REST's clients read."""
    number = partition.at.partition
    offset = partition.log.start_offset
    while True:
        page = await broker.browsing.read(Browse(partition.at.topic, {number: offset}, _PAGE))
        if not page.messages:
            return
        yield [(one.offset, one.value) for one in page.messages]
        offset = page.next_offsets[number]


# --- watching ------------------------------------------------------------------------------------------------


class Watch:
    """Looks at every broker when it stops."""

    def __init__(self) -> None:
        self._lives: WeakKeyDictionary[Broker, Life] = WeakKeyDictionary()
        self._found: list[Violation] = []
        self._published = 0  # messages in transactions, of which producers heard
        self._looked_at = 0  # messages in transactions, in the lives of brokers that stopped

    def judge(self) -> None:
        """Complains of all that was found since it was asked last; also if there was something to see, and it saw
        nothing."""
        found, published, looked_at = self._found, self._published, self._looked_at
        self.forget()
        assert not found, "\n".join(dict.fromkeys(str(one) for one in found))
        assert looked_at or not published, "no broker with transactions was stopped"

    def forget(self) -> None:
        """For a test that plants a bug."""
        self._found, self._published, self._looked_at = [], 0, 0

    def begins(self, broker: Broker) -> Life:
        life = self._lives[broker] = Life(self._touched)
        listen(broker, life)
        return life

    def _touched(self) -> None:
        self._published += 1

    async def look_at(self, broker: Broker) -> None:
        life = self._lives.pop(broker, None)
        if life is None or not (life.told or any(len(one.dedupe) for one in partitions_of(broker))):
            return  # no producer had a number
        history, count = await history_of(broker, life)
        self._looked_at += count + sum(map(len, life.told.values()))
        self._found += check(history)


@pytest.fixture(autouse=True)
def watched_lives() -> Iterator[Watch]:
    """For every test beside the `conftest.py` that imports it."""
    watch = Watch()
    start, stop = Broker.start, Broker.stop

    async def start_watched(self: Broker) -> list[Recovered]:
        life = watch.begins(self)
        recovered = await start(self)
        life.take_over(self)
        return recovered

    async def stop_watched(self: Broker) -> None:
        await watch.look_at(self)
        await stop(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Broker, "start", start_watched)
        patch.setattr(Broker, "stop", stop_watched)
        yield watch
    watch.judge()
