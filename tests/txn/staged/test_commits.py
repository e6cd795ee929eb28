"""Staged sets of a whole broker in virtual time: a batch is seen whole and once, whoever asks how often."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from goqueue.base.errors import GoQueueError, InvalidField, StaleReceipt, StorageFailed
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.settings import TransactionSettings
from goqueue.broker import Broker
from goqueue.core.txn import staged as sets
from goqueue.core.txn.errors import (
    ConcurrentTransactions,
    InvalidProducerMapping,
    InvalidTxnState,
    InvalidTxnTimeout,
    ProducerFenced,
    StagedConflict,
)
from goqueue.core.txn.records import TxnAnswer
from goqueue.service.staged import StagedSetEnded
from goqueue.sim.disk import SimDisk
from tests.service.brokers import publish, settings
from tests.txn.staged.world import OWNER, Writer, commit, last_batch, open_writers, read, seen, stage, stuck, tell

HOUR_S = 3_600


async def decided(broker: Broker, commits: Coroutine[Any, Any, StagedSetEnded]) -> asyncio.Task[StagedSetEnded]:
    """A first commit under way, whose decision is taken and not yet carried out."""
    call = asyncio.ensure_future(commits)
    for _ in range(1_000):
        if last_batch(broker) is not None:
            break
        await asyncio.sleep(0)
    assert not call.done()
    return call


def test_what_all_writers_wrote_is_seen_with_the_commit_and_not_before() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 2, {})
        await broker.topics.create("b", 1, {})
        first, second = await stage(broker, 0, "0"), await stage(broker, 0, "1")
        await first.write("a", 0, "x1", "x2")
        await first.write("a", 1, "x3")
        await second.publish("b", "y1")
        await second.write("a", 0, "y2")
        assert await read(broker, "a") == await read(broker, "b") == []
        assert last_batch(broker) is None and len(open_writers(broker)) == 2
        assert (await commit(broker, 0, first, second)).outcome == "committed"
        assert await read(broker, "a") == ["x1", "x2", "y2", "x3"] and await read(broker, "b") == ["y1"]
        assert last_batch(broker) == 0 and open_writers(broker) == []
        assert broker.transactions.tally.committed == 2

    tell(story)


def test_a_repeated_commit_changes_nothing_and_drops_what_was_staged_for_it_again() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        one = await stage(broker, 5)
        await one.write("a", 0, "once")
        await commit(broker, 5, one)
        assert msgspec.to_builtins(await commit(broker, 5, one)) == {"outcome": "already", "dropped": 0}
        again, later = await stage(broker, 5), await stage(broker, 6, "6")
        await again.write("a", 0, "twice")
        assert msgspec.to_builtins(await commit(broker, 5, again)) == {"outcome": "already", "dropped": 1}
        assert msgspec.to_builtins(await commit(broker, 2)) == {"outcome": "already", "dropped": 0}
        assert open_writers(broker) == [later.key[0]], "the next batch goes on"
        assert await read(broker, "a") == ["once"] and last_batch(broker) == 5

    tell(story)


def test_losers_of_retried_tasks_and_leftovers_of_killed_runs_vanish_with_the_commit() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        leftover = await stage(broker, 0, "killed run")
        loser, winner = await stage(broker, 0, "0", 0), await stage(broker, 0, "0", 1)
        foreign = await stage(broker, 0, owner="another")
        for one, value in ((leftover, "leftover"), (loser, "loser"), (winner, "winner")):
            await one.write("a", 0, value)
        assert msgspec.to_builtins(await commit(broker, 0, winner)) == {"outcome": "committed", "dropped": 2}
        assert await read(broker, "a") == ["winner"] and stuck(broker, ["a"]) == []
        assert open_writers(broker) == [] and open_writers(broker, "another") == [foreign.key[0]]
        with pytest.raises(ProducerFenced):
            await loser.write("a", 0, "late", add=False)
        with pytest.raises(ProducerFenced):
            await loser.publish("a", "late")

    tell(story)


def test_a_writer_that_was_committed_can_write_no_more() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        one = await stage(broker, 0)
        await one.write("a", 0, "good")
        await commit(broker, 0, one)
        for late in (one.write("a", 0, "late"), one.write("a", 0, "late", add=False), one.publish("a", "late")):
            with pytest.raises(ProducerFenced):
                await late
        assert broker.transactions.open() == [] and await read(broker, "a") == ["good"]

    tell(story)


def test_a_zombie_is_shut_out_by_who_stages_the_same_writer_and_attempt() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        zombie = await stage(broker, 3)
        await zombie.write("a", 0, "zombie")
        heir = await stage(broker, 3)
        assert heir.key[0] == zombie.key[0] and heir.key != zombie.key
        with pytest.raises(ProducerFenced):
            await zombie.write("a", 0, "more", add=False)
        await heir.write("a", 0, "heir")
        with pytest.raises(StagedConflict, match="is over"):
            await commit(broker, 3, zombie)
        await commit(broker, 3, heir)
        assert await read(broker, "a") == ["heir"] and stuck(broker, ["a"]) == []

    tell(story)


def test_ids_are_used_again_by_every_batch() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        for batch in range(20):
            writers = [await stage(broker, batch, str(number)) for number in range(3)]
            for number, one in enumerate(writers):
                await one.write("a", 0, f"{batch}.{number}")
            assert (await commit(broker, batch, *writers)).outcome == "committed"
        assert len(broker.transactions.all()) == 3
        assert len(broker.topics.require("a").partition(0).dedupe) == 3
        assert len(await seen(broker, "a")) == 60

    tell(story)


def test_one_bad_name_refuses_the_whole_commit_and_the_good_ones_stay_open() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        good, gone = await stage(broker, 0, "good"), await stage(broker, 0, "gone")
        await good.write("a", 0, "v")
        await broker.transactions.end(*gone.key, commit=False)
        with pytest.raises(StagedConflict, match="/gone/0"):
            await commit(broker, 0, good, gone)
        assert await read(broker, "a") == [] and last_batch(broker) is None
        await commit(broker, 0, good)
        assert await read(broker, "a") == ["v"]

    tell(story)


def test_an_abort_drops_its_batch_and_never_undoes_a_commit() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        one = await stage(broker, 0)
        await one.write("a", 0, "kept")
        await commit(broker, 0, one)
        late, other = await stage(broker, 0), await stage(broker, 1, "1")
        await late.write("a", 0, "late")
        told = [msgspec.to_builtins(await broker.staged.abort(OWNER, batch)) for batch in (0, 0, 1, 1, 9)]
        assert told == [
            {"outcome": "already committed", "dropped": 1},
            {"outcome": "already committed", "dropped": 0},
            {"outcome": "aborted", "dropped": 1},
            {"outcome": "aborted", "dropped": 0},
            {"outcome": "aborted", "dropped": 0},
        ]
        with pytest.raises(StagedConflict):
            await commit(broker, 1, other)
        assert await read(broker, "a") == ["kept"] and stuck(broker, ["a"]) == []
        assert (await commit(broker, 1)).outcome == "committed", "nothing is a batch too"
        assert last_batch(broker) == 1

    tell(story)


def test_of_two_drivers_that_commit_the_same_batch_one_wins_and_the_other_hears_already() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        for batch in range(10):
            mine = [await stage(broker, batch, f"{n}", 0) for n in range(3)]
            others = [await stage(broker, batch, f"{n}", 1) for n in range(3)]
            for name, writers in (("mine", mine), ("others", others)):
                for one in writers:
                    await one.write("a", 0, f"{batch} {name}")
            calls = (commit(broker, batch, *mine), commit(broker, batch, *others))
            told = await asyncio.gather(*(calls if batch % 2 else calls[::-1]))
            assert sorted(one.outcome for one in told) == ["already", "committed"]
            found = [value for value in await read(broker, "a") if value.startswith(f"{batch} ")]
            assert len(found) == 3 and len(set(found)) == 1, found
        assert stuck(broker, ["a"]) == [] and broker.transactions.open() == []

    tell(story, chosen=settings(fsync="always"))


def test_many_who_commit_and_abort_and_stage_at_once_neither_tear_a_batch_nor_stand_still() -> None:
    chance = random.Random(3)
    tally: Counter[str] = Counter()

    async def attempt(broker: Broker, batch: int, run: int) -> None:
        await asyncio.sleep(chance.uniform(0, 0.1))
        try:
            writers = [await stage(broker, batch, f"{n}", run) for n in range(3)]
            for one in writers:
                await one.write("a", 0, f"{batch}.{run}")
                await asyncio.sleep(chance.uniform(0, 0.01))
            await commit(broker, batch, *writers)
        except GoQueueError as why:
            assert isinstance(why, ProducerFenced | StagedConflict | ConcurrentTransactions | InvalidTxnState), why
            tally["attempts refused"] += 1
            if run % 2:
                await broker.staged.abort(OWNER, batch)

    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        for batch in range(15):
            await asyncio.gather(*(attempt(broker, batch, run) for run in range(6)))
        for batch in range(15):
            found = [value for value in await read(broker, "a") if value.startswith(f"{batch}.")]
            assert len(found) in (0, 3) and len(set(found)) <= 1, found
            tally["batches committed"] += bool(found)
            await broker.staged.abort(OWNER, batch)
        print(dict(tally))
        assert len(+tally) == 2, "nobody won, or nobody lost"
        assert stuck(broker, ["a"]) == [] and broker.transactions.open() == []

    tell(story, chosen=settings(fsync="always"))


@pytest.mark.parametrize("fsync", ["interval", "always"])
def test_a_thousand_writers_in_one_commit(fsync: str) -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 3, {})
        writers = await asyncio.gather(*(stage(broker, 0, str(number)) for number in range(1_000)))
        await asyncio.gather(*(one.write("a", n % 3, f"{n}") for n, one in enumerate(writers)))
        dropped = (await commit(broker, 0, *writers[:-1])).dropped
        assert dropped == 1
        found = await seen(broker, "a")
        assert found.keys() == {f"{n}" for n in range(999)} and set(found.values()) == {1}
        assert stuck(broker, ["a"]) == [] and broker.transactions.open() == []

    tell(story, chosen=settings(fsync=fsync))


# --- time ------------------------------------------------------------------------------------------------------


def test_a_silent_writer_is_aborted_in_its_own_time_and_one_that_is_heard_lives_on() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        silent = Writer(broker, await broker.staged.stage(OWNER, 0, "silent", timeout_ms=2 * HOUR_S * 1000))
        busy = await stage(broker, 0, "busy")
        await silent.write("a", 0, "silent")
        await busy.write("a", 0, "busy")
        for _ in range(5):
            await asyncio.sleep(HOUR_S * 0.9)
            await busy.write("a", 0, "busy", add=False)
        assert open_writers(broker) == [busy.key[0]]
        with pytest.raises(StagedConflict, match="silent"):
            await commit(broker, 0, silent, busy)
        again = await stage(broker, 0, "silent")
        await again.write("a", 0, "again")
        await commit(broker, 0, again, busy)
        assert await seen(broker, "a") == {"busy": 6, "again": 1} and stuck(broker, ["a"]) == []

    tell(story)


def test_after_a_restart_staged_writers_have_their_whole_time_again() -> None:
    staged_ones: list[Writer] = []

    async def before(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        one = await stage(broker, 0)
        await one.write("a", 0, "v")
        staged_ones.append(one)

    async def after(broker: Broker) -> None:
        await asyncio.sleep(HOUR_S * 0.9)
        assert (await commit(broker, 0, *staged_ones)).outcome == "committed"
        assert await read(broker, "a") == ["v"]

    tell(after, tell(before), at_s=10 * HOUR_S)


def test_times_out_of_bounds_are_refused_and_those_of_ordinary_transactions_do_not_count() -> None:
    async def story(broker: Broker) -> None:
        for timeout_ms in (0, 24 * HOUR_S * 1000 + 1):
            with pytest.raises(InvalidTxnTimeout):
                await broker.staged.stage(OWNER, 0, "0", timeout_ms=timeout_ms)
        assert (await broker.staged.stage(OWNER, 0, "0", timeout_ms=24 * HOUR_S * 1000)).timeout_ms == 86_400_000
        assert (await broker.staged.stage(OWNER, 0, "1")).timeout_ms == 3_600_000
        with pytest.raises(InvalidTxnTimeout):
            await broker.transactions.init("ordinary", 3_600_000)

    tell(story)


def test_an_owner_that_is_idle_is_forgotten_and_a_busy_one_never() -> None:
    chosen = msgspec.structs.replace(settings(), transactions=TransactionSettings(owner_retention_ms=HOUR_S * 1000))

    async def story(broker: Broker) -> None:
        await commit(broker, 0, owner="idle")
        for batch in range(5):
            await commit(broker, batch, owner="busy")
            await asyncio.sleep(HOUR_S / 2)
        await asyncio.sleep(HOUR_S / 4)
        assert (last_batch(broker, "idle"), last_batch(broker, "busy")) == (None, 4)

    async def later(broker: Broker) -> None:
        assert (last_batch(broker, "idle"), last_batch(broker, "busy")) == (None, 4)

    tell(later, tell(story, chosen=chosen), chosen)


# --- over restarts ---------------------------------------------------------------------------------------------


def test_the_last_batch_is_known_after_a_restart() -> None:
    async def before(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        one = await stage(broker, 41)
        await one.write("a", 0, "v")
        await commit(broker, 41, one)

    async def after(broker: Broker) -> None:
        assert last_batch(broker) == 41
        again = await stage(broker, 41)
        await again.write("a", 0, "again")
        assert (await commit(broker, 41, again)).outcome == "already"
        assert await read(broker, "a") == ["v"] and stuck(broker, ["a"]) == []

    tell(after, tell(before))


def test_it_outlives_the_compaction_of_the_coordinators_log() -> None:
    async def before(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        partition = broker.txn_coordinators.of_owner(OWNER).host._partition
        assert partition is not None
        for batch in range(30):
            one = await stage(broker, batch)
            await one.write("a", 0, f"{batch}")
            await commit(broker, batch, one)
            partition.log.roll()
            await broker.flusher.seal(partition)
        await asyncio.sleep(120)
        assert broker.storage_stats.segments_compacted > 0

    async def after(broker: Broker) -> None:
        assert last_batch(broker) == 29
        assert (await commit(broker, 29)).outcome == "already"
        assert len(await read(broker, "a")) == 30

    tell(after, tell(before))


# --- other parts -----------------------------------------------------------------------------------------------


def test_the_ids_of_an_owner_have_a_bound_and_those_idle_longest_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "STAGED_WRITERS_MAX", 5)

    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        for batch in range(20):
            one = await stage(broker, batch, f"only-{batch}")
            await one.write("a", 0, f"{batch}")
            await commit(broker, batch, one)
        kept = [state.transactional_id.split("/")[2] for state in broker.transactions.all()]
        assert sorted(kept) == sorted(f"only-{batch}" for batch in range(15, 20))
        zombie = await stage(broker, 20, "zombie")
        await broker.staged.abort(OWNER, 20)
        for number in range(5):
            await stage(broker, 21, f"{number}")
        assert zombie.key[0] not in [state.transactional_id for state in broker.transactions.all()]
        with pytest.raises(InvalidProducerMapping):
            await zombie.write("a", 0, "late", add=False)
        assert len(await read(broker, "a")) == 20

    tell(story)


def test_acks_of_a_set_are_carried_out_with_it_and_one_that_is_too_late_refuses_it() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        await publish(broker, "in", "1", "2")
        take = Take("g", [TopicPartition("in", 0)], "me", 2)
        good, lost = await broker.leasing.take(take)
        one, two = await stage(broker, 0, "1"), await stage(broker, 0, "2")
        await broker.transactions.add_answers(*one.key, [TxnAnswer(good.receipt)])
        await broker.transactions.add_answers(*two.key, [TxnAnswer(lost.receipt)])
        await broker.leasing.ack([lost.receipt])
        with pytest.raises(StaleReceipt):
            await commit(broker, 0, one, two)
        assert last_batch(broker) is None
        assert (await commit(broker, 0, one)).dropped == 1
        assert await broker.leasing.take(take) == []

    tell(story)


def test_a_commit_waits_for_the_data_and_is_refused_if_the_disk_fails() -> None:
    disk = SimDisk()

    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        one = await stage(broker, 0)
        await broker.transactions.add_partitions(*one.key, [TopicPartition("a", 0)])
        await broker.flusher.force()
        disk.fails_sync = True
        with pytest.raises(StorageFailed):
            await one.write("a", 0, "v")
        disk.fails_sync = False
        with pytest.raises(StorageFailed):
            await commit(broker, 0, one)
        assert last_batch(broker) is None

    tell(story, disk, settings(fsync="always"))


def test_a_commit_goes_on_if_its_caller_goes_away() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        one = await stage(broker, 0)
        await one.write("a", 0, "v")
        call = await decided(broker, commit(broker, 0, one))
        call.cancel()
        assert (await commit(broker, 0, one)).outcome == "already"
        assert await read(broker, "a") == ["v"], "the repetition waited until it was visible"

    tell(story, chosen=settings(fsync="always"))


def test_a_writer_that_is_staged_again_while_its_batch_is_being_committed_waits() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("a", 1, {})
        one = await stage(broker, 0)
        await one.write("a", 0, "v")
        call = await decided(broker, commit(broker, 0, one))
        again = await stage(broker, 0)
        assert call.done() and again.key != one.key
        assert (await commit(broker, 0, again)).dropped == 1
        assert await read(broker, "a") == ["v"]

    tell(story, chosen=settings(fsync="always"))


def test_bad_names_and_numbers_are_refused_everywhere() -> None:
    async def story(broker: Broker) -> None:
        for owner, batch in (("", 0), ("x" * 201, 0), ("..", 0), ("o", -1), ("o", 2**63)):
            for call in (
                broker.staged.stage(owner, batch, "w"),
                broker.staged.commit(owner, batch, []),
                broker.staged.abort(owner, batch),
            ):
                with pytest.raises(InvalidField):
                    await call
        with pytest.raises(InvalidField):
            broker.staged.owner("")
        assert broker.staged.owners(10) == []

    tell(story)
