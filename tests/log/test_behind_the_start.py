"""A log that begins behind the end of its last file, as a cut or a power cut leaves it. What is written next is neither
taken for damage nor cut off at a later start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from goqueue.log.partition_log import PartitionLog
from goqueue.sim.disk import SimDisk
from tests.log.logs import append, batch, fill, of_a_leader, open_at, seal, stop, survey, sync, taken, values
from tests.log.test_journal import Store, value


def cut_within_a_batch(disk: SimDisk) -> SimDisk:
    """The file ends at 6, the log at 8."""
    log, _ = open_at(disk)
    fill(log, 6)
    append(log, batch(*"abcd"))
    sync(log)
    log.begin_drop_head(8).run()
    log.truncate(8)
    return disk


def cut_within_the_first_batch(disk: SimDisk) -> SimDisk:
    """The file is empty, and the log ends at 8."""
    log, _ = open_at(disk)
    append(log, batch(*"abcdefghij"))
    sync(log)
    log.begin_drop_head(8).run()
    log.truncate(8)
    return disk


def power_cut_before_a_sync(disk: SimDisk) -> SimDisk:
    """Where the log begins was durable at once, and what stood before was not."""
    log, _ = open_at(disk)
    fill(log, 6)
    sync(log)
    fill(log, 4)
    log.begin_drop_head(8).run()
    return disk.crash("dropped")


def power_cut_before_the_first_batch(disk: SimDisk) -> SimDisk:
    """The same, and the file is empty."""
    log, _ = open_at(disk)
    log.roll()
    log.needs_sync()
    sync(log)
    fill(log, 10)
    log.begin_drop_head(8).run()
    return disk.crash("dropped")


WAYS = (
    cut_within_a_batch,
    cut_within_the_first_batch,
    power_cut_before_a_sync,
    power_cut_before_the_first_batch,
)
Way = Callable[[SimDisk], SimDisk]


@pytest.mark.parametrize("starts", [0, 1, 2])  # before it is written to again
@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_next_outlives_a_power_cut_and_a_seal(way: Way, starts: int) -> None:
    log, disk = opened(way(SimDisk()), starts)
    assert (log.start_offset, log.end_offset, log.synced_offset) == (8, 8, 8)
    append(log, batch("new"))
    append(log, batch("newer"))
    sync(log)
    log, _ = open_at(disk := disk.crash("dropped"))
    assert survey(log) == ["new", "newer"]
    log.roll()
    seal(log)
    assert survey(log) == ["new", "newer"]
    stop(log)
    log, found = open_at(disk)
    assert survey(log) == ["new", "newer"] and not found.damaged_ranges


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_that_begins_before_the_log_is_taken(way: Way) -> None:
    log, disk = opened(way(SimDisk()), 1)
    taken(log, of_a_leader(5, *"pqrst"))
    sync(log)
    log, found = open_at(disk.crash("dropped"))
    assert (log.start_offset, log.end_offset, values(log)) == (8, 10, ["s", "t"])
    assert not found.damaged_ranges


def test_what_is_dropped_is_dropped_with_the_file_before() -> None:
    log, _ = opened(power_cut_before_a_sync(SimDisk()), 1)
    append(log, batch("new"))
    assert [one.base_offset for one in log.segments] == [0, 8]
    log.begin_drop_head(9).run()
    assert [one.base_offset for one in log.segments] == [8]


def test_what_the_journal_has_behind_the_start_alone_stays_as_it_is() -> None:
    disk = SimDisk()
    store = Store(disk)
    for number in range(3):
        append(store.logs[0], batch(value(number)))
        store.round()  # the first of them by a sync of the log
    store.logs[0].begin_drop_head(2).run()
    store = Store(disk.crash("dropped"))
    assert values(store.logs[0]) == [value(2)]
    store = Store(store.disk.crash("dropped"))
    assert values(store.logs[0]) == [value(2)]
    append(store.logs[0], batch(value(3)))
    store.stop()
    assert survey(Store(store.disk).logs[0]) == [value(2), value(3)]


def opened(disk: SimDisk, starts: int) -> tuple[PartitionLog, SimDisk]:
    """After so many starts with a clean stop."""
    for _ in range(starts):
        log, _ = open_at(disk)
        stop(log)
    return open_at(disk)[0], disk
