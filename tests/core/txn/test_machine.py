"""The transaction coordinator: which request is good in which state, fencing, time, repeated ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from goqueue.base.errors import GoQueueError, InvalidField, OutOfOrderSequence
from goqueue.core.schedule.records import ScheduleEntry
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
from goqueue.core.txn.machine import Transactions
from goqueue.core.txn.records import (
    Record,
    TxnAnswer,
    TxnCall,
    TxnDelayed,
    TxnDelayedGone,
    TxnGone,
    TxnOffset,
    TxnStage,
    TxnState,
    decode_record,
    encode_record,
)

ID = "shop"
PLACES = [("a", 0), ("b", 1)]


class World:
    """A coordinator whose decisions hold at once."""

    def __init__(self, timeout_ms: int = 60_000, session_ms: int = 0) -> None:
        self.machine = Transactions(900_000, 1_000_000, 1_000_000)
        self.now = 1_000
        self.apply(self.machine.init(ID, timeout_ms, 7, self.now, session_ms=session_ms))

    def apply(self, record: Record) -> None:
        self.machine.apply(record)

    @property
    def state(self) -> TxnState:
        return self.machine.require(ID)

    @property
    def key(self) -> tuple[str, int, int]:
        return ID, self.state.producer_id, self.state.epoch

    def open(self) -> World:
        self.apply(self.machine.add(*self.key, self.now, partitions=PLACES))
        return self

    def prepare(self, commit: bool, bump: bool = False) -> World:
        decided = self.open().machine.end(*self.key, commit, self.now, bump)
        assert decided is not None
        self.apply(decided)
        return self

    def complete(self, commit: bool, bump: bool = False) -> World:
        self.prepare(commit, bump).apply(self.machine.completed(ID, self.now, bump, 99))
        return self


STAGES: dict[TxnStage, Callable[[], World]] = {
    TxnStage.EMPTY: World,
    TxnStage.ONGOING: lambda: World().open(),
    TxnStage.PREPARE_COMMIT: lambda: World().prepare(True),
    TxnStage.PREPARE_ABORT: lambda: World().prepare(False),
    TxnStage.COMPLETE_COMMIT: lambda: World().complete(True),
    TxnStage.COMPLETE_ABORT: lambda: World().complete(False),
}

REQUESTS: dict[str, Callable[[World], TxnState | None]] = {
    "init": lambda world: world.machine.init(ID, 1_000, 8, world.now),
    "add": lambda world: world.machine.add(*world.key, world.now, partitions=[("c", 2)]),
    "add inside": lambda world: world.machine.add(*world.key, world.now, begins=False, groups=["g"]),
    "write": lambda world: world.machine.check_write(*world.key[1:], "a", 0),
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
        found = REQUESTS[request_](world)
        assert (None if found is None else found.stage) is expected
    assert world.state.stage is stage, "asking changes nothing: only what is applied does"


# --- fencing ---------------------------------------------------------------------------------------------------


def test_who_begins_again_shuts_out_its_older_self() -> None:
    world = World()
    old = world.key
    world.apply(world.machine.init(ID, 60_000, 8, world.now))
    assert world.key == (ID, 7, 1)
    with pytest.raises(ProducerFenced):
        world.machine.add(*old, world.now, partitions=PLACES)
    with pytest.raises(ProducerFenced):
        world.machine.end(*old, True, world.now)
    with pytest.raises(InvalidProducerMapping):
        world.machine.add(ID, 6, 1, world.now, partitions=PLACES)
    with pytest.raises(InvalidProducerMapping):
        world.machine.check_write(6, 0, "a", 0)


def test_a_write_needs_the_current_epoch_and_a_partition_that_was_added() -> None:
    world = World().open()
    world.machine.check_write(7, 0, "a", 0)
    with pytest.raises(ProducerFenced):
        world.machine.check_write(7, 1, "a", 0)
    with pytest.raises(InvalidTxnState):
        world.machine.check_write(7, 0, "a", 1)


def test_a_producer_that_did_not_hear_that_it_began_again_is_told_once_more() -> None:
    world = World()
    fresh = world.machine.init(ID, 60_000, 8, world.now, 7, 0)
    world.apply(fresh)
    assert fresh.epoch == 1
    assert world.machine.init(ID, 60_000, 8, world.now, 7, 0) == fresh
    assert world.machine.init(ID, 60_000, 8, world.now, 7, 1).epoch == 2
    with pytest.raises(ProducerFenced):
        world.machine.init(ID, 60_000, 8, world.now, 7, 3)


def test_epochs_that_are_used_up_bring_a_new_producer_id() -> None:
    world = World()
    world.apply(TxnState(ID, 7, EPOCH_MAX))
    fresh = world.machine.init(ID, 60_000, 8, world.now)
    assert (fresh.producer_id, fresh.epoch) == (8, 0)
    world.prepare(True, bump=True)
    world.apply(world.machine.completed(ID, world.now, True, 9))
    assert world.key == (ID, 9, 0)
    assert world.machine.end(ID, 7, EPOCH_MAX, True, world.now) is None, "its end may be asked for again"
    with pytest.raises(InvalidProducerMapping):
        world.machine.end(ID, 7, EPOCH_MAX, False, world.now)


def test_an_end_may_be_asked_for_again_also_when_the_epoch_moved_on() -> None:
    world = World().complete(True, bump=True)
    assert world.key == (ID, 7, 1)
    assert world.machine.end(ID, 7, 0, True, world.now) is None
    with pytest.raises(ProducerFenced):
        world.machine.end(ID, 7, 0, False, world.now)
    world.apply(world.machine.add(*world.key, world.now, partitions=PLACES))
    with pytest.raises(ProducerFenced):
        world.machine.end(ID, 7, 0, True, world.now)


def test_a_transaction_begins_with_nothing_of_the_last_one() -> None:
    world = World().open()
    more = [TxnOffset("g", "a", 0, 5)]
    world.apply(world.machine.add(*world.key, world.now, offsets=more, answers=[TxnAnswer("r")], groups=["g"]))
    decided = world.machine.end(*world.key, True, world.now)
    assert decided is not None and decided.receipts == ["r"] and decided.offsets == tuple(more)
    world.apply(decided)
    world.apply(world.machine.completed(ID, world.now, False))
    again = world.machine.add(*world.key, world.now, partitions=[("c", 0)])
    assert (again.partitions, again.offsets, again.answers, again.groups) == ((("c", 0),), (), (), ())


# --- time ------------------------------------------------------------------------------------------------------


def test_an_open_transaction_runs_out_of_time_and_its_producer_is_fenced() -> None:
    world = World(timeout_ms=500).open()
    assert world.machine.overdue(1_499) == []
    assert world.machine.overdue(1_500) == [ID]
    assert world.machine.overdue(1_600) == [], "told once"
    assert world.machine.overdue(2_500) == [ID], "and again if it is still open"
    fenced = world.machine.fence(ID, 2_500)
    assert fenced is not None and (fenced.stage, fenced.epoch) == (TxnStage.PREPARE_ABORT, 1)
    world.apply(fenced)
    assert world.machine.overdue(10_000) == []
    world.apply(world.machine.completed(ID, 10_000, False))
    with pytest.raises(ProducerFenced):
        world.machine.end(ID, 7, 0, True, 10_000)


def test_a_new_transaction_has_its_own_time() -> None:
    world = World(timeout_ms=500).complete(True)
    world.now = 1_400
    world.open()
    assert world.machine.overdue(1_500) == []
    assert world.machine.next_deadline() == 1_900
    assert world.machine.overdue(1_900) == [ID]


def test_a_shorter_time_counts_at_once() -> None:
    world = World(timeout_ms=60_000).complete(True)
    world.apply(world.machine.init(ID, 10, 8, world.now))
    world.open()
    assert world.machine.next_deadline() == 1_010


def test_a_silent_producer_loses_its_transaction_and_one_that_is_heard_keeps_it() -> None:
    world = World(timeout_ms=60_000, session_ms=100).open()
    world.machine.beat(7, 0, 1_090)
    assert world.machine.overdue(1_100) == []
    world.machine.add(*world.key, 1_150)
    assert world.machine.overdue(1_190) == []
    assert world.machine.overdue(1_249) == []
    assert world.machine.overdue(1_250) == [ID]
    assert world.machine.is_overdue(ID, 1_250)
    world.machine.beat(7, None, 1_260)
    assert not world.machine.is_overdue(ID, 1_260)
    with pytest.raises(ProducerFenced):
        world.machine.beat(7, 3, 1_260)
    with pytest.raises(UnknownTransaction):
        world.machine.beat(6, 0, 1_260)


def test_after_a_start_everybody_gets_a_whole_session() -> None:
    fresh = Transactions(900_000, 1_000_000, 1_000_000)
    fresh.apply(World(session_ms=100).open().state)
    fresh.touch_all(5_000)
    assert fresh.overdue(5_099) == []
    assert fresh.overdue(5_100) == [ID]


def test_idle_producers_are_forgotten_and_busy_ones_not() -> None:
    world = World().complete(True)
    assert list(world.machine.forgotten(1_000_999)) == []
    (gone,) = world.machine.forgotten(1_001_000)
    assert gone == TxnGone(ID)
    world.open()
    assert list(world.machine.forgotten(9_000_000)) == []
    world.apply(gone)
    with pytest.raises(UnknownTransaction):
        world.machine.require(ID)
    assert world.machine.of_producer(7) is None


# --- limits, numbers, records ----------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused() -> None:
    machine = Transactions(900_000, 1_000, 1_000)
    for name in ("", "a\0b", "x" * 1_001):
        with pytest.raises(InvalidField):
            machine.init(name, 1_000, 1, 0)
    for timeout_ms in (0, 900_001):
        with pytest.raises(InvalidTxnTimeout):
            machine.init(ID, timeout_ms, 1, 0)
    world = World().open()
    with pytest.raises(TransactionTooLarge):
        world.machine.add(*world.key, 0, answers=[TxnAnswer(f"{n}") for n in range(10_001)])
    with pytest.raises(TransactionTooLarge):
        world.machine.add(*world.key, 0, delayed=10_001)


def test_the_last_publishes_are_known_by_their_numbers() -> None:
    world = World().open()
    for sequence in range(7):
        call = TxnCall(sequence, 1, ())
        assert world.machine.call(world.state, sequence) is None
        world.apply(world.machine.add(*world.key, world.now, call=call))
        assert world.machine.call(world.state, sequence) == call
    assert world.machine.call(world.state, 2) is not None
    with pytest.raises(OutOfOrderSequence):
        world.machine.call(world.state, 1)


def test_delayed_messages_stay_with_the_transaction_and_go_with_its_end() -> None:
    world = World().open()
    entry = ScheduleEntry("t", 0, 5, b"k", b"v")
    world.apply(world.machine.add(*world.key, world.now, delayed=1))
    world.apply(TxnDelayed(ID, 0, 0, [entry]))
    assert [one.entries for one in world.machine.delayed(ID)] == [[entry]]
    assert world.machine.leftovers(world.state) == []
    done = world.prepare(True).machine.completed(ID, world.now, False)
    (gone,) = world.machine.leftovers(done)
    assert gone == TxnDelayedGone(ID, 0, 0)
    world.apply(gone)
    assert (world.machine.delayed(ID), world.machine.delayed_bytes) == ([], 0)


def test_only_what_is_not_over_counts_as_open() -> None:
    world = World()
    assert world.machine.open() == []
    for commit in (True, False):
        world.prepare(commit)
        assert [state.transactional_id for state in world.machine.in_doubt()] == [ID]
        assert world.machine.open_count == 1
        assert world.machine.writes_to(7, "a", 0) and not world.machine.writes_to(7, "a", 1)
        world.apply(world.machine.completed(ID, world.now, False))
        assert world.machine.open_count == 0
        assert not world.machine.writes_to(7, "a", 0)


def test_records_come_back_as_they_were_written() -> None:
    state = World().open().state
    entry = ScheduleEntry("t", 0, 5, b"k", None, (("h", b"x"),), mark="7/0/0/0")
    for record in (state, TxnGone(ID), TxnDelayed(ID, 1, 2, [entry]), TxnDelayedGone(ID, 1, 2)):
        assert decode_record(*encode_record(record)) == record
    assert encode_record(TxnDelayed(ID, 1, 2, []))[0] == encode_record(TxnDelayedGone(ID, 1, 2))[0]
    key, _ = encode_record(state)
    assert decode_record(key, b"from the future") is None
