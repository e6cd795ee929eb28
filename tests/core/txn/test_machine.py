"""The transaction coordinator: which request is good in which state, fencing, time, repeated ends."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest

from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError, InvalidField, InvalidGroup, OutOfOrderSequence
from goqueue.core.machine import Decision
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.core.txn.effects import ScheduleDelayed, end_of
from goqueue.core.txn.epochs import EPOCH_MAX
from goqueue.core.txn.errors import (
    ConcurrentTransactions,
    InvalidProducerMapping,
    InvalidTxnState,
    InvalidTxnTimeout,
    ProducerFenced,
    TransactionTooLarge,
    UnknownTransaction,
)
from goqueue.core.txn.moves import More, call_of
from goqueue.core.txn.questions import MayWrite, WriteAnswer
from goqueue.core.txn.records import (
    VERSION,
    Record,
    TxnAnswer,
    TxnCall,
    TxnDelayed,
    TxnDelayedGone,
    TxnGone,
    TxnOffset,
    TxnOwnerGone,
    TxnStage,
    TxnState,
    decode_record,
    encode_record,
)
from goqueue.core.txn.table import TransactionTable
from tests.core.txn.deciding import complete, ends_in, new_machine, overdue, state_in, take

ID = "shop"
PLACES = [("a", 0), ("b", 1)]


class World:
    """A coordinator whose decisions hold at once."""

    def __init__(self, timeout_ms: int = 60_000, session_ms: int = 0) -> None:
        self.machine = new_machine()
        self.now = 1_000
        self.take(self.machine.init(ID, timeout_ms, 7, self.now, session_ms=session_ms))

    def apply(self, record: Record) -> None:
        self.machine.apply(record)

    def take(self, decision: Decision[Record]) -> TxnState:
        state = take(self.machine, decision)
        assert isinstance(state, TxnState)
        return state

    @property
    def state(self) -> TxnState:
        return self.machine.table.require(ID)

    @property
    def key(self) -> tuple[str, int, int]:
        return ID, self.state.producer_id, self.state.epoch

    def open(self) -> World:
        self.take(self.machine.add(*self.key, self.now, More(partitions=PLACES)))
        return self

    def prepare(self, commit: bool, bump: bool = False) -> World:
        self.take(self.open().machine.end(*self.key, commit, self.now, bump=bump))
        return self

    def complete(self, commit: bool, bump: bool = False) -> World:
        complete(self.prepare(commit, bump).machine, ID, self.now, 99)
        return self


STAGES: dict[TxnStage, Callable[[], World]] = {
    TxnStage.EMPTY: World,
    TxnStage.ONGOING: lambda: World().open(),
    TxnStage.PREPARE_COMMIT: lambda: World().prepare(True),
    TxnStage.PREPARE_ABORT: lambda: World().prepare(False),
    TxnStage.COMPLETE_COMMIT: lambda: World().complete(True),
    TxnStage.COMPLETE_ABORT: lambda: World().complete(False),
}


def may_write(world: World, producer_id: int, epoch: int, topic: str, partition: int) -> Decision[Record]:
    """Not a decision, but refused like one. Question and answer are sent as bytes."""
    asked = decode(encode(MayWrite(producer_id, epoch, topic, partition)), MayWrite)
    answer = decode(encode(world.machine.may_write(asked, world.now)), WriteAnswer)
    if answer.error is not None:
        raise answer.error
    return Decision()


REQUESTS: dict[str, Callable[[World], Decision[Record]]] = {
    "init": lambda world: world.machine.init(ID, 1_000, 8, world.now),
    "add": lambda world: world.machine.add(*world.key, world.now, More(partitions=[("c", 2)])),
    "add inside": lambda world: world.machine.add(*world.key, world.now, More(groups=["g"]), begins=False),
    "write": lambda world: may_write(world, *world.key[1:], "a", 0),
    "commit": lambda world: world.machine.end(*world.key, True, world.now),
    "abort": lambda world: world.machine.end(*world.key, False, world.now),
    "fence": lambda world: world.machine.fence(ID, world.now),
}

BUSY, WRONG = ConcurrentTransactions, InvalidTxnState
TABLE: dict[str, dict[TxnStage, TxnStage | type[GoQueueError] | None]] = {
    # what each request leads to, by stage: another stage, nothing, or an error word
    "init": dict(zip(TxnStage, [TxnStage.EMPTY, BUSY, BUSY, BUSY, TxnStage.EMPTY, TxnStage.EMPTY], strict=True)),
    "add": dict(
        zip(TxnStage, [TxnStage.ONGOING, TxnStage.ONGOING, BUSY, BUSY, TxnStage.ONGOING, TxnStage.ONGOING], strict=True)
    ),
    "add inside": dict(zip(TxnStage, [WRONG, TxnStage.ONGOING, BUSY, BUSY, WRONG, WRONG], strict=True)),
    "write": dict(zip(TxnStage, [WRONG, None, WRONG, WRONG, WRONG, WRONG], strict=True)),
    "commit": dict(zip(TxnStage, [WRONG, TxnStage.PREPARE_COMMIT, BUSY, WRONG, None, WRONG], strict=True)),
    "abort": dict(zip(TxnStage, [WRONG, TxnStage.PREPARE_ABORT, WRONG, BUSY, WRONG, None], strict=True)),
    "fence": dict(zip(TxnStage, [None, TxnStage.PREPARE_ABORT, None, None, None, None], strict=True)),
}


@pytest.mark.parametrize("stage", TxnStage)
@pytest.mark.parametrize("request_", REQUESTS)
def test_each_request_in_each_state(request_: str, stage: TxnStage) -> None:
    world = STAGES[stage]()
    assert world.state.stage is stage
    expected = TABLE[request_][stage]
    if isinstance(expected, type):
        with pytest.raises(expected):
            REQUESTS[request_](world)
    else:
        found = state_in(REQUESTS[request_](world))
        assert (None if found is None else found.stage) is expected
    assert world.state.stage is stage, "asking changes nothing: only what is applied does"


# --- fencing ---------------------------------------------------------------------------------------------------


def test_who_begins_again_shuts_out_its_older_self() -> None:
    world = World()
    old = world.key
    world.take(world.machine.init(ID, 60_000, 8, world.now))
    assert world.key == (ID, 7, 1)
    with pytest.raises(ProducerFenced):
        world.machine.add(*old, world.now, More(partitions=PLACES))
    with pytest.raises(ProducerFenced):
        world.machine.end(*old, True, world.now)
    with pytest.raises(InvalidProducerMapping):
        world.machine.add(ID, 6, 1, world.now, More(partitions=PLACES))
    with pytest.raises(InvalidProducerMapping):
        may_write(world, 6, 0, "a", 0)


def test_a_write_needs_the_current_epoch_and_a_partition_that_was_added() -> None:
    world = World().open()
    may_write(world, 7, 0, "a", 0)
    with pytest.raises(ProducerFenced):
        may_write(world, 7, 1, "a", 0)
    with pytest.raises(InvalidTxnState):
        may_write(world, 7, 0, "a", 1)


def test_a_producer_that_did_not_hear_that_it_began_again_is_told_once_more() -> None:
    world = World()
    fresh = world.take(world.machine.init(ID, 60_000, 8, world.now, 7, 0))
    assert fresh.epoch == 1
    again = world.machine.init(ID, 60_000, 8, world.now, 7, 0)
    assert again.records == [] and world.take(again) == fresh
    third = state_in(world.machine.init(ID, 60_000, 8, world.now, 7, 1))
    assert third is not None and third.epoch == 2
    with pytest.raises(ProducerFenced):
        world.machine.init(ID, 60_000, 8, world.now, 7, 3)


def test_epochs_that_are_used_up_bring_a_new_producer_id() -> None:
    world = World()
    world.apply(TxnState(ID, 7, EPOCH_MAX))
    fresh = state_in(world.machine.init(ID, 60_000, 8, world.now))
    assert fresh is not None and (fresh.producer_id, fresh.epoch) == (8, 0)
    world.prepare(True, bump=True)
    complete(world.machine, ID, world.now, 9)
    assert world.key == (ID, 9, 0)
    assert world.machine.end(ID, 7, EPOCH_MAX, True, world.now).records == [], "its end may be asked for again"
    with pytest.raises(InvalidProducerMapping):
        world.machine.end(ID, 7, EPOCH_MAX, False, world.now)


def test_an_end_may_be_asked_for_again_also_when_the_epoch_moved_on() -> None:
    world = World().complete(True, bump=True)
    assert world.key == (ID, 7, 1)
    assert world.machine.end(ID, 7, 0, True, world.now).records == []
    with pytest.raises(ProducerFenced):
        world.machine.end(ID, 7, 0, False, world.now)
    world.take(world.machine.add(*world.key, world.now, More(partitions=PLACES)))
    with pytest.raises(ProducerFenced):
        world.machine.end(ID, 7, 0, True, world.now)


def test_a_transaction_begins_with_nothing_of_the_last_one() -> None:
    world = World().open()
    more = [TxnOffset("g", "a", 0, 5)]
    world.take(world.machine.add(*world.key, world.now, More(offsets=more, answers=[TxnAnswer("r")], groups=["g"])))
    decided = world.take(world.machine.end(*world.key, True, world.now))
    assert decided.receipts == ["r"] and decided.offsets == tuple(more)
    complete(world.machine, ID, world.now)
    again = state_in(world.machine.add(*world.key, world.now, More(partitions=[("c", 0)])))
    assert again is not None
    assert (again.partitions, again.offsets, again.answers, again.groups) == ((("c", 0),), (), (), ())


# --- time ------------------------------------------------------------------------------------------------------


def test_an_open_transaction_runs_out_of_time_and_its_producer_is_fenced() -> None:
    world = World(timeout_ms=500).open()
    assert overdue(world.machine, 1_499) == []
    assert overdue(world.machine, 1_500) == [ID]
    assert overdue(world.machine, 1_600) == [ID], "again, as it could not be written"
    decision = world.machine.tick(2_500)
    assert overdue(world.machine, 2_500) == [], "told once"
    fenced = state_in(decision)
    assert fenced is not None and (fenced.stage, fenced.epoch) == (TxnStage.PREPARE_ABORT, 1)
    assert [end.whose for end in ends_in(decision)] == [(7, 1)]
    world.apply(fenced)
    assert overdue(world.machine, 10_000) == []
    complete(world.machine, ID, 10_000)
    with pytest.raises(ProducerFenced):
        world.machine.end(ID, 7, 0, True, 10_000)


def test_a_new_transaction_has_its_own_time() -> None:
    world = World(timeout_ms=500).complete(True)
    world.now = 1_400
    world.open()
    assert overdue(world.machine, 1_500) == []
    assert world.machine.next_deadline() == 1_900
    assert overdue(world.machine, 1_900) == [ID]


def test_a_shorter_time_counts_at_once() -> None:
    world = World(timeout_ms=60_000).complete(True)
    world.take(world.machine.init(ID, 10, 8, world.now))
    world.open()
    assert world.machine.next_deadline() == 1_010


def test_a_silent_producer_loses_its_transaction_and_one_that_is_heard_keeps_it() -> None:
    world = World(timeout_ms=60_000, session_ms=100).open()
    world.machine.beat(7, 0, 1_090)
    assert overdue(world.machine, 1_100) == []
    world.machine.add(*world.key, 1_150, More())
    assert overdue(world.machine, 1_190) == []
    assert overdue(world.machine, 1_249) == []
    assert overdue(world.machine, 1_250) == [ID]
    world.machine.beat(7, None, 1_260)
    assert overdue(world.machine, 1_260) == []
    with pytest.raises(ProducerFenced):
        world.machine.beat(7, 3, 1_260)
    with pytest.raises(UnknownTransaction):
        world.machine.beat(6, 0, 1_260)


def test_after_a_start_everybody_gets_a_whole_session() -> None:
    fresh = new_machine()
    fresh.apply(World(session_ms=100).open().state)
    fresh.loaded(5_000)
    assert overdue(fresh, 5_099) == []
    assert overdue(fresh, 5_100) == [ID]


def forgotten(world: World, now: int) -> list[Record]:
    """With the upkeep that is due an hour after a load."""
    world.machine.loaded(now - 3_600_000)
    return [one for one in world.machine.tick(now).records if isinstance(one, TxnGone | TxnOwnerGone)]


def test_idle_producers_are_forgotten_and_busy_ones_not() -> None:
    world = World().complete(True)
    assert forgotten(world, 1_000_999) == []
    (gone,) = forgotten(world, 1_001_000)
    assert gone == TxnGone(ID)
    world.open()
    assert forgotten(world, 9_000_000) == []
    world.apply(gone)
    with pytest.raises(UnknownTransaction):
        world.machine.table.require(ID)
    assert world.machine.table.of_producer(7) is None


def test_after_the_clock_was_set_everybody_has_as_much_time_as_before() -> None:
    for by_ms in (-500_000, 500_000):
        world, idle = World(timeout_ms=500).open(), World().complete(True)
        for record in world.machine.shift(by_ms, 1_000 + by_ms).records:
            world.apply(record)
        assert overdue(world.machine, by_ms + 1_499) == []
        assert overdue(world.machine, by_ms + 1_500) == [ID]
        assert world.state.started_ms == by_ms + 1_000, "and so it is after a load"
        assert idle.machine.shift(by_ms, 1_000 + by_ms).records == []
        assert forgotten(idle, by_ms + 1_000_999) == []
        assert forgotten(idle, by_ms + 1_001_000) == [TxnGone(ID)]


# --- limits, numbers, records ----------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused() -> None:
    machine = new_machine()
    for name in ("", "a\0b", "x" * 1_001):
        with pytest.raises(InvalidField):
            machine.init(name, 1_000, 1, 0)
    for timeout_ms in (0, 900_001):
        with pytest.raises(InvalidTxnTimeout):
            machine.init(ID, timeout_ms, 1, 0)
    world = World().open()
    with pytest.raises(TransactionTooLarge):
        world.machine.add(*world.key, 0, More(answers=[TxnAnswer(f"{n}") for n in range(10_001)]))
    with pytest.raises(TransactionTooLarge):
        world.machine.add(*world.key, 0, More(groups=[f"g{n}" for n in range(1_001)]))
    with pytest.raises(InvalidGroup):
        world.machine.add(*world.key, 0, More(groups=["g" * 1_001]))
    entries = [ScheduleEntry("t", 0, 5, b"k", b"v")] * 10_001
    with pytest.raises(TransactionTooLarge):
        world.machine.add(*world.key, 0, More(delayed=TxnDelayed(ID, 0, 0, entries)))


def test_where_a_group_is_moved_is_known_without_a_look_at_all_that_is_open() -> None:
    table = TransactionTable()
    others = tuple(TxnOffset(f"g{number}", "t", 0, 1) for number in range(2_000))
    mine = tuple(TxnOffset("g", "t", number, 1) for number in range(2))
    for number in range(50):
        table.apply(TxnState(f"id{number}", number, 0, TxnStage.ONGOING, offsets=others))
    table.apply(TxnState("a", 100, 0, TxnStage.ONGOING, offsets=(*others, *mine)))
    table.apply(TxnState("b", 101, 0, TxnStage.ONGOING, offsets=mine[:1]))
    began = time.process_time()
    for _ in range(1_000):
        assert list(table.moving("g")) == [("t", 0), ("t", 1), ("t", 0)]
    assert time.process_time() - began < 1, "a request may ask for thousands of groups"
    table.apply(TxnState("a", 100, 0, TxnStage.PREPARE_COMMIT, offsets=mine))
    table.apply(TxnState("b", 101, 0, TxnStage.COMPLETE_COMMIT))
    assert list(table.moving("g")) == [("t", 0), ("t", 1)]
    table.apply(TxnGone("a"))
    assert list(table.moving("g")) == [] and len(list(table.moving("g7"))) == 50


def test_the_last_publishes_are_known_by_their_numbers() -> None:
    world = World().open()
    for sequence in range(7):
        call = TxnCall(sequence, 1, ())
        assert call_of(world.state, sequence) is None
        world.take(world.machine.add(*world.key, world.now, More(call=call)))
        assert call_of(world.state, sequence) == call
    assert call_of(world.state, 2) is not None
    with pytest.raises(OutOfOrderSequence):
        call_of(world.state, 1)


def test_delayed_messages_stay_with_the_transaction_and_go_with_its_end() -> None:
    world = World().open()
    entry = ScheduleEntry("t", 0, 5, b"k", b"v")
    world.take(world.machine.add(*world.key, world.now, More(delayed=TxnDelayed(ID, 0, 0, [entry]))))
    table = world.machine.table
    assert [one.entries for one in table.delayed(ID)] == [[entry]] and table.delayed_bytes == entry.size
    for record in list(table.snapshot()):
        world.apply(record)
    assert table.delayed_bytes == entry.size, "records may come again"
    (end,) = ends_in(world.machine.end(*world.key, True, world.now, schedules_from=(12, 3)))
    assert end.effects[-1] == ScheduleDelayed(7, 0, 0, (msgspec.structs.replace(entry, mark="7/0/0/0"),), (12, 3))
    assert [end.effects[-1].start(schedule) for schedule in range(3)] == [12, 3, 0], "the last was made since"
    (end,) = ends_in(world.prepare(True).machine.loaded(world.now))
    decision = world.machine.completed(end, world.now)
    assert TxnDelayedGone(ID, 0, 0) in decision.records
    world.take(decision)
    assert (table.delayed(ID), table.delayed_bytes) == ([], 0)


def test_only_what_is_not_over_counts_as_open() -> None:
    world = World()
    table = world.machine.table
    assert table.open() == []
    for commit in (True, False):
        world.prepare(commit)
        assert [state.transactional_id for state in table.in_doubt()] == [ID]
        assert table.open_count == 1
        assert table.writes_to(7, "a", 0) and not table.writes_to(7, "a", 1)
        complete(world.machine, ID, world.now)
        assert table.open_count == 0
        assert not table.writes_to(7, "a", 0)


def test_records_come_back_as_they_were_written() -> None:
    state = World().open().state
    entry = ScheduleEntry("t", 0, 5, b"k", None, (("h", b"x"),), mark="7/0/0/0")
    for record in (state, TxnGone(ID), TxnDelayed(ID, 1, 2, [entry]), TxnDelayedGone(ID, 1, 2)):
        assert decode_record(*encode_record(record)) == record
    assert encode_record(TxnDelayed(ID, 1, 2, []))[0] == encode_record(TxnDelayedGone(ID, 1, 2))[0]
    key, _ = encode_record(state)
    assert decode_record(key, b"from the future") is None


def test_a_record_of_before_there_were_several_schedules_speaks_of_the_first() -> None:
    stored = {"transactional_id": ID, "producer_id": 7, "epoch": 0, "stage": "PrepareCommit", "schedule_from": 12}
    state = decode_record(ID.encode(), msgspec.msgpack.encode((VERSION, stored)))
    assert isinstance(state, TxnState)
    end = end_of(state, [TxnDelayed(ID, 0, 0, [ScheduleEntry("t", 0, 5, b"k", b"v")])], 0)
    (delayed,) = end.effects
    assert isinstance(delayed, ScheduleDelayed) and delayed.schedules_from == (12,)
