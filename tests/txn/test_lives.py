"""What `watched_lives` finds by itself when a broker stops, in a test that does not look."""

from __future__ import annotations

import pytest

from goqueue.broker import Broker
from goqueue.core.txn.effects import WriteMarker
from goqueue.service.txn_partitions import TransactionPartitions
from goqueue.sim.disk import SimDisk
from tests.txn.checker import Kind
from tests.txn.history import History
from tests.txn.lives import Watch
from tests.txn.staged import world as staged
from tests.txn.test_planted_bugs import (
    Lives,
    Plant,
    a_marker_is_skipped,
    a_zombie_writes,
    an_aborted_one_gets_a_commit_marker,
    an_answer_is_lost,
    commits_and_aborts,
    no_fence,
    readers_are_not_told_what_is_aborted,
    readers_pass_open_transactions,
    repetitions_are_stored,
)
from tests.txn.world import Client, cut_power, live


def no_marker_is_written(patch: pytest.MonkeyPatch) -> None:
    def careless(self: TransactionPartitions, effect: WriteMarker) -> None:
        pass

    patch.setattr(TransactionPartitions, "mark", careless)


def left_open(disk: SimDisk, history: History) -> None:
    async def story(broker: Broker, history: History) -> None:
        await broker.topics.create("other", 1, {})
        writer = await staged.stage(broker, 0)
        await writer.write("other", 0, "v")

    assert not live(disk, story, history)


@pytest.mark.parametrize(
    ("plant", "lives", "kind"),
    [
        (no_marker_is_written, commits_and_aborts, Kind.LOST),
        (a_marker_is_skipped, commits_and_aborts, Kind.LOST),
        (a_marker_is_skipped, commits_and_aborts, Kind.TORN),
        (an_aborted_one_gets_a_commit_marker, commits_and_aborts, Kind.ABORTED_READ),
        (readers_are_not_told_what_is_aborted, commits_and_aborts, Kind.ABORTED_READ),
        (readers_pass_open_transactions, left_open, Kind.ABORTED_READ),
        (no_fence, a_zombie_writes, Kind.LOST),
        (repetitions_are_stored, an_answer_is_lost, Kind.DOUBLED),
    ],
)
def test_a_planted_bug_is_caught(
    monkeypatch: pytest.MonkeyPatch, watched_lives: Watch, plant: Plant, lives: Lives, kind: Kind
) -> None:
    plant(monkeypatch)
    lives(SimDisk(), History())
    with pytest.raises(AssertionError, match=kind):
        watched_lives.judge()


def test_a_staged_set_without_its_markers_is_caught(monkeypatch: pytest.MonkeyPatch, watched_lives: Watch) -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        writer = await staged.stage(broker, 0)
        await writer.publish("t", "v")
        await staged.commit(broker, 0, writer)

    staged.tell(story)
    watched_lives.judge()
    no_marker_is_written(monkeypatch)
    staged.tell(story)
    with pytest.raises(AssertionError, match=Kind.LOST):
        watched_lives.judge()


def test_a_transaction_over_two_lives_is_one(monkeypatch: pytest.MonkeyPatch, watched_lives: Watch) -> None:
    writers: list[staged.Writer] = []

    async def stages(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        writers.append(await staged.stage(broker, 0))
        await writers[0].write("t", 0, "v")

    async def commits(broker: Broker) -> None:
        await staged.commit(broker, 0, *writers)

    disk = staged.tell(stages)
    no_marker_is_written(monkeypatch)
    staged.tell(commits, disk)
    with pytest.raises(AssertionError, match=Kind.LOST):
        watched_lives.judge()


def test_a_test_whose_brokers_never_stop_is_told_so(watched_lives: Watch) -> None:
    disk = SimDisk()

    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        client.begin()
        await client.write(0, "v")
        cut_power(disk)
        await client.commit()

    assert live(disk, story, History())
    with pytest.raises(AssertionError, match="no broker"):
        watched_lives.judge()
