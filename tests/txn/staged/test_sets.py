"""Staged sets as decisions: names, records, room, who may be committed with whom."""

from __future__ import annotations

import msgspec
import pytest

from goqueue.base.errors import InvalidField
from goqueue.core.machine import Decision
from goqueue.core.txn import staged, staged_moves
from goqueue.core.txn.epochs import EPOCH_MAX
from goqueue.core.txn.errors import (
    ConcurrentTransactions,
    InvalidTxnState,
    OwnersFull,
    ProducerFenced,
    StagedConflict,
    TransactionTooLarge,
)
from goqueue.core.txn.moves import More
from goqueue.core.txn.records import (
    Record,
    TxnGone,
    TxnOwner,
    TxnOwnerGone,
    TxnStage,
    TxnState,
    decode_record,
    encode_record,
)
from goqueue.core.txn.staged import NamedWriter, StagedSets, check_batch, check_owner, staged_id, writer_of
from tests.core.txn.deciding import complete, ends_in, new_machine, overdue, take

HOUR_MS = 3_600_000


class World:
    """A coordinator whose decisions hold at once."""

    def __init__(self) -> None:
        self.machine = new_machine()
        self.now = 1_000
        self._ids = 0

    @property
    def sets(self) -> StagedSets:
        return self.machine.table.staged

    def apply(self, *records: Record) -> None:
        for record in records:
            self.machine.apply(record)

    def stage(self, owner: str = "o", batch: int = 0, writer: str = "w", attempt: int = 0) -> NamedWriter:
        self._ids += 1
        name = staged_id(owner, writer, attempt)
        decision = staged_moves.opened(self.machine, name, owner, batch, HOUR_MS, self._ids, self.now)
        state = take(self.machine, decision)
        return NamedWriter(name, state.producer_id, state.epoch)

    def state(self, named: NamedWriter) -> TxnState:
        return self.machine.table.require(named.transactional_id)

    def commit(self, *named: NamedWriter, owner: str = "o", batch: int = 0) -> Decision[Record]:
        others = self.sets.open(owner)
        decision = staged_moves.commit(self.machine, owner, batch, named, others, self.now)
        take(self.machine, decision)
        return decision

    def drop(self, named: NamedWriter, now: int = 0) -> NamedWriter:
        assert take(self.machine, staged_moves.drop(self.machine, [named.transactional_id], now)) == 1
        return named

    def complete(self, named: NamedWriter) -> None:
        complete(self.machine, named.transactional_id, self.now, 99)

    def forgotten(self, now: int) -> list[Record]:
        """With the upkeep that is due an hour after a load."""
        self.machine.loaded(now - HOUR_MS)
        return [one for one in self.machine.tick(now).records if isinstance(one, TxnOwnerGone)]


# --- names and records -----------------------------------------------------------------------------------------


def test_an_id_tells_its_writer_and_no_two_owners_share_one() -> None:
    assert staged_id("query", "3", 1) == "staged/query/3/1"
    assert staged_id("a/b", "c", 0) != staged_id("a", "b/c", 0)
    assert staged_id("a%2Fb", "c", 0) != staged_id("a/b", "c", 0)
    for writer in ("3", "a/b", "100%", "%2F", "ü"):
        assert writer_of(staged_id("own/er", writer, 7)) == (writer, 7)
    assert len(staged_id("/" * 200, "%" * 100, 2**31 - 1)) < 1_000


@pytest.mark.parametrize("owner", ["", "x" * 201, "a\0b", "a\nb", "\x7f", "\ud800", ".", ".."])
def test_an_owner_that_cannot_be_named(owner: str) -> None:
    with pytest.raises(InvalidField) as why:
        check_owner(owner)
    assert why.value.field == "owner"


def test_writers_attempts_and_batches_have_bounds() -> None:
    for writer, attempt in (("", 0), ("x" * 101, 0), ("a\tb", 0), ("w", -1), ("w", 2**31)):
        with pytest.raises(InvalidField):
            staged_id("o", writer, attempt)
    for batch in (-1, 2**63):
        with pytest.raises(InvalidField):
            check_batch(batch)
    check_batch(2**63 - 1)


@pytest.mark.parametrize(
    "record",
    [
        TxnOwner("query/7 ü", 2**63 - 1, 5),
        TxnOwnerGone("query/7 ü"),
        TxnState("staged/o/w/0", 3, 4, TxnStage.ONGOING, owner="o", batch=0),
    ],
)
def test_records_come_back_as_they_were(record: Record) -> None:
    assert decode_record(*encode_record(record)) == record


def test_owners_and_producers_of_one_name_have_keys_of_their_own() -> None:
    keys = {encode_record(one)[0] for one in (TxnOwner("x", 1, 1), TxnState("x", 1, 0), TxnState("o" + "x", 1, 0))}
    assert len(keys) == 3


def test_a_record_of_before_there_were_owners_is_read_as_it_was() -> None:
    old = {"transactional_id": "shop", "producer_id": 7, "epoch": 2, "stage": "Ongoing", "partitions": [["t", 0]]}
    state = decode_record(b"shop", msgspec.msgpack.encode((1, old)))
    assert state == TxnState("shop", 7, 2, TxnStage.ONGOING, partitions=(("t", 0),))
    assert b"owner" not in (encode_record(state)[1] or b""), "nor is anything written that it did not hold"


def test_an_owner_of_a_later_version_is_left_alone() -> None:
    key, _ = encode_record(TxnOwner("o", 1, 1))
    assert decode_record(key, msgspec.msgpack.encode((2, TxnOwner("o", 1, 1)))) is None
    assert decode_record(key, b"\xc1") is None


# --- writers ---------------------------------------------------------------------------------------------------


def test_a_writer_is_open_at_once_and_each_staging_has_an_epoch_of_its_own() -> None:
    world = World()
    first = world.stage()
    assert world.state(first).stage is TxnStage.ONGOING
    with pytest.raises(ConcurrentTransactions):
        world.stage()
    world.drop(first, world.now)
    with pytest.raises(ConcurrentTransactions):
        world.stage()
    world.complete(first)
    second = world.stage(batch=1)
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 2)
    with pytest.raises(ProducerFenced):
        world.machine.add(first.transactional_id, first.producer_id, first.epoch, world.now, More())


def test_a_writer_whose_epochs_are_used_up_goes_on_with_a_new_producer_id() -> None:
    world = World()
    world.apply(TxnState("staged/o/w/0", 7, EPOCH_MAX, TxnStage.COMPLETE_COMMIT, owner="o", batch=1))
    assert world.stage(batch=2) == NamedWriter("staged/o/w/0", 1, 0)


def test_only_staging_begins_and_only_the_set_commits() -> None:
    world = World()
    one = world.stage()
    key = (one.transactional_id, one.producer_id, one.epoch)
    for refused in (
        lambda: world.machine.end(*key, True, world.now),
        lambda: world.machine.init(one.transactional_id, 60_000, 5, world.now),
    ):
        with pytest.raises(InvalidTxnState, match="staged writer"):
            refused()
    aborted = take(world.machine, world.machine.end(*key, False, world.now))
    assert aborted.stage is TxnStage.PREPARE_ABORT, "a writer may give up"
    world.complete(one)
    with pytest.raises(InvalidTxnState):
        world.machine.add(*key, world.now, More(partitions=[("t", 0)]))


def test_a_writer_has_its_time_from_when_it_was_last_heard_of() -> None:
    world = World()
    one = world.stage()
    world.machine.touch(one.producer_id, world.now + HOUR_MS - 1)
    assert overdue(world.machine, world.now + HOUR_MS) == []
    assert overdue(world.machine, world.now + 2 * HOUR_MS - 2) == []
    assert overdue(world.machine, world.now + 2 * HOUR_MS - 1) == [one.transactional_id]


# --- commits ---------------------------------------------------------------------------------------------------


def test_a_commit_ends_the_named_keeps_the_number_and_drops_the_others() -> None:
    world = World()
    one, two, loser = world.stage(writer="1"), world.stage(writer="2"), world.stage(writer="2", attempt=1)
    leftover, foreign = world.stage(writer="9", batch=7), world.stage(owner="other", writer="1")
    decision = world.commit(two, one)
    owner, *states = decision.records
    assert owner == TxnOwner("o", 0, world.now)
    committed = [one for one in states if isinstance(one, TxnState) and one.commits]
    dropped = [one for one in states if isinstance(one, TxnState) and not one.commits]
    assert [state.transactional_id for state in committed] == [two.transactional_id, one.transactional_id]
    assert all(state.stage is TxnStage.PREPARE_COMMIT and state.bumps for state in committed)
    assert {state.transactional_id for state in dropped} == {loser.transactional_id, leftover.transactional_id}
    assert all(state.stage is TxnStage.PREPARE_ABORT for state in dropped)
    assert [end.transactional_id for end in ends_in(decision)] == [one.transactional_id for one in committed + dropped]
    assert world.sets.last_batch("o") == 0
    assert world.state(foreign).stage is TxnStage.ONGOING
    world.complete(one)
    assert world.state(one).epoch == one.epoch + 1, "who goes on writing is shut out"


def test_a_commit_of_nothing_moves_the_number_on() -> None:
    world = World()
    assert world.commit(batch=4).records == [TxnOwner("o", 4, world.now)]
    assert world.sets.last_batch("o") == 4


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda world, one: NamedWriter("staged/o/nobody/0", 1, 0), "is not staged"),
        (lambda world, one: NamedWriter("shop", 77, 0), "is not staged"),
        (lambda world, one: msgspec.structs.replace(one, epoch=one.epoch + 1), "is over"),
        (lambda world, one: msgspec.structs.replace(one, producer_id=99), "is over"),
        (lambda world, one: world.stage(owner="other"), "of 'other'"),
        (lambda world, one: world.stage(batch=5, writer="5"), "for batch 5 of 'o'"),
        (
            lambda world, one: world.drop(one),
            "is over",
        ),
    ],
)
def test_one_that_does_not_belong_refuses_all_and_is_named(spoil, told) -> None:  # type: ignore[no-untyped-def]
    world = World()
    world.apply(TxnState("shop", 77, 0, TxnStage.ONGOING))
    good, one = world.stage(writer="good"), world.stage()
    bad = spoil(world, one)
    before = world.machine.table.all()
    with pytest.raises(StagedConflict, match="Nothing was committed") as why:
        world.commit(good, bad)
    assert told in why.value.message
    assert (why.value.field, why.value.detail["writer"]) == ("writers[1]", bad.transactional_id)
    assert world.machine.table.all() == before and world.sets.of("o") is None


def test_a_commit_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    one = world.stage()
    with pytest.raises(InvalidField, match="twice"):
        world.commit(one, one)
    state = world.state(one)
    world.apply(msgspec.structs.replace(state, partitions=(("t", 0), ("t", 1))))
    monkeypatch.setattr(staged_moves, "STAGED_PLACES_MAX", 1)
    with pytest.raises(TransactionTooLarge):
        world.commit(one)
    monkeypatch.setattr(staged_moves, "STAGED_WRITERS_MAX", 0)
    with pytest.raises(TransactionTooLarge):
        world.commit(one)


# --- owners ----------------------------------------------------------------------------------------------------


def test_owners_are_forgotten_when_they_committed_nothing_for_long_and_have_nothing_staged() -> None:
    world = World()
    world.commit(batch=3)
    assert world.forgotten(1_000_999) == []
    assert world.forgotten(1_001_000) == [TxnOwnerGone("o")]
    one = world.stage()
    assert world.forgotten(9_000_000) == []
    world.drop(one)
    world.complete(one)
    world.apply(*world.forgotten(9_000_000))
    assert world.sets.last_batch("o") == -1 and world.sets.owners() == []


def test_there_is_room_for_so_many_owners_and_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "STAGED_OWNERS_MAX", 2)
    monkeypatch.setattr(staged, "STAGED_WRITERS_MAX", 2)
    world = World()
    sets = world.sets
    one, _ = world.stage(writer="1"), world.commit(owner="p")
    with pytest.raises(OwnersFull):
        sets.check_owner_room("q")
    sets.check_writer_room("o")
    world.stage(writer="2")
    with pytest.raises(TransactionTooLarge):
        sets.check_writer_room("o")
    sets.check_owner_room("o")
    assert list(sets.surplus("o")) == [], "what is open never goes"
    world.drop(one)
    world.complete(one)
    assert list(sets.surplus("o")) == [one.transactional_id]
    world.apply(TxnGone(one.transactional_id))
    assert list(sets.surplus("o")) == [] and sets.open_count("o") == 1


def test_nothing_is_kept_of_an_owner_that_is_gone() -> None:
    world = World()
    one = world.stage()
    world.commit(one)
    world.complete(one)
    world.apply(TxnGone(one.transactional_id), TxnOwnerGone("o"))
    empty = StagedSets()
    assert vars(world.sets) == vars(empty)
