"""Which leader wrote what: the history of a log's epochs, through appends, cuts, crashes and lost files."""

from __future__ import annotations

import msgspec
import pytest

from goqueue.base.startup_errors import DataTooNew
from goqueue.core.replication.follower import LogPlace, parting
from goqueue.format.batch import read_header
from goqueue.log.appending import RollRule
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.epoch_history import EpochStart, begun, cut_head, cut_tail, end_of_epoch, epoch_of
from goqueue.log.notes import META_FILE
from goqueue.log.partition_log import PartitionLog
from goqueue.log.recovery import StrayLog, open_log
from goqueue.log.segment import FORMAT_VERSION
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from tests.log.logs import (
    DIRECTORY,
    HOUR_MS,
    batch,
    compact_all,
    compacted,
    home,
    open_at,
    seal,
    stop,
    survey,
    sync,
    taken,
    value_at,
)

# (epoch, how many messages it wrote)
LIVES = ((0, 5), (3, 1), (4, 9), (7, 2))
HISTORY = [(0, 0), (3, 5), (4, 6), (7, 15)]


def write(log: PartitionLog, epoch: int, count: int) -> None:
    for number in range(log.end_offset, log.end_offset + count):
        data = batch(value_at(number), time=1_000 + number)
        log.append(data, read_header(data), epoch, 1_000)


def history(log: PartitionLog) -> list[tuple[int, int]]:
    return [(one.epoch, one.first_offset) for one in log.notes.meta.epochs]


def lived(disk: Disk) -> PartitionLog:
    log, _ = open_at(disk, segment_bytes=600)
    for epoch, count in LIVES:
        write(log, epoch, count)
    sync(log)
    return log


def stamped(log: PartitionLog) -> list[tuple[int, int]]:
    """The history that the batches themselves tell."""
    found: list[tuple[int, int]] = []
    for one in log.batches(log.start_offset):
        header = read_header(one)
        if not found or header.leader_epoch != found[-1][0]:
            found.append((header.leader_epoch, header.base_offset))
    return found


# --- questions ------------------------------------------------------------------------------------------


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    epochs = tuple(EpochStart(*one) for one in HISTORY)
    ends = {epoch: end_of_epoch(epochs, epoch, 17) for epoch in range(9)}
    assert ends == {
        0: (0, 5),
        1: (0, 5),
        2: (0, 5),
        3: (3, 6),
        4: (4, 15),
        5: (4, 15),
        6: (4, 15),
        7: (7, 17),
        8: (7, 17),
    }


def test_an_epoch_before_all_that_are_known_ends_where_the_first_of_them_begins() -> None:
    epochs = (EpochStart(4, 6), EpochStart(7, 15))
    assert end_of_epoch(epochs, 2, 17) == (2, 6)


def test_the_epoch_of_an_offset_is_the_one_it_was_written_in() -> None:
    epochs = tuple(EpochStart(*one) for one in HISTORY)
    assert [epoch_of(epochs, offset) for offset in (0, 4, 5, 6, 14, 15, 99)] == [0, 0, 3, 4, 4, 7, 7]
    assert epoch_of((), 0) == -1


def test_cutting_keeps_the_epochs_of_what_stays() -> None:
    epochs = tuple(EpochStart(*one) for one in HISTORY)
    assert cut_tail(epochs, 6) == epochs[:2]
    assert cut_tail(epochs, 0) == ()
    assert cut_head(epochs, 5) == epochs[1:]
    assert cut_head(epochs, 8) == (EpochStart(4, 8), EpochStart(7, 15))
    assert begun(epochs, 7, 99) == begun(epochs, 5, 99) == epochs


# --- in a log -------------------------------------------------------------------------------------------


def test_the_history_survives_a_stop_and_a_kill(disk: Disk) -> None:
    log = lived(disk)
    assert history(log) == HISTORY
    killed, _ = open_at(disk, segment_bytes=600)
    assert history(killed) == HISTORY
    stop(killed)
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and history(log) == HISTORY == stamped(log)


def test_a_log_goes_on_in_its_last_epoch_without_a_new_entry(disk: Disk) -> None:
    stop(lived(disk))
    log, _ = open_at(disk, segment_bytes=600)
    write(log, 7, 1)
    write(log, 9, 1)
    assert history(log) == [*HISTORY, (9, 18)]


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_a_lost_history_is_made_anew_from_the_batches(disk: Disk, damage: str, sealed: bool) -> None:
    log = lived(disk)
    if sealed:
        seal(log)
        stop(log)
    path = f"{DIRECTORY}/{META_FILE}"
    disk.remove(path) if damage == "lost" else disk.write_file(path, b"not a note")
    log, _ = open_at(disk, segment_bytes=600)
    assert history(log) == HISTORY
    sync(log)
    seal(log)
    stop(log)
    assert history(open_at(disk, segment_bytes=600)[0]) == HISTORY


def test_one_large_segment_is_searched_by_its_index(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=1 << 20)
    lives = [(epoch, 1 + epoch * 7 % 40) for epoch in range(1, 30, 2)]
    for epoch, count in lives:
        write(log, epoch, count)
    sync(log)
    disk.remove(f"{DIRECTORY}/{META_FILE}")
    again, _ = open_at(disk, segment_bytes=1 << 20)
    assert history(again) == history(log) == stamped(again)


def test_a_log_of_an_earlier_version_was_written_in_epoch_0(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    write(log, 0, 8)
    stop(log)
    path = f"{DIRECTORY}/{META_FILE}"
    old = decode_crc_json(disk.read_file(path), dict[str, object])
    assert old is not None
    kept = {name: value for name, value in old.items() if name not in ("epochs", "topic_id")}
    disk.write_file(path, encode_crc_json(kept))
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and history(log) == [(0, 0)]
    write(log, 2, 1)
    stop(log)
    assert history(open_at(disk, segment_bytes=600)[0]) == [(0, 0), (2, 8)]


def test_a_log_of_a_later_version_is_refused_and_not_touched(disk: Disk) -> None:
    log, _ = open_at(disk)
    write(log, 0, 8)
    stop(log)
    path = f"{DIRECTORY}/{META_FILE}"
    noted = decode_crc_json(disk.read_file(path), dict[str, object])
    assert noted is not None
    disk.write_file(path, encode_crc_json({**noted, "version": FORMAT_VERSION + 1}))
    before = {name: disk.read_file(f"{DIRECTORY}/{name}") for name in disk.names(DIRECTORY)}
    with pytest.raises(DataTooNew, match="Start the version that wrote it, or a later one"):
        open_at(disk)
    assert {name: disk.read_file(f"{DIRECTORY}/{name}") for name in disk.names(DIRECTORY)} == before


@pytest.mark.parametrize("end", range(18))
def test_the_history_is_cut_with_the_log(disk: Disk, end: int) -> None:
    log = lived(disk)
    log.truncate(end)
    expected = [one for one in HISTORY if one[1] < end]
    assert history(log) == expected
    again, _ = open_at(disk, segment_bytes=600)
    assert history(again) == expected
    write(again, 8, 1)
    assert history(again) == [*expected, (8, end)]


def test_the_history_begins_where_the_log_does(disk: Disk) -> None:
    log = lived(disk)
    seal(log)
    log.begin_drop_head(8).run()
    assert history(log) == [(4, 8), (7, 15)]
    assert history(open_at(disk, segment_bytes=600)[0]) == [(4, 8), (7, 15)]


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_power_cut_at_any_write_leaves_a_history_that_fits_the_batches(mode: CrashMode) -> None:
    def life(disk: SimDisk, ends: list[int]) -> None:
        log, _ = open_at(disk, segment_bytes=600)
        for epoch, count in LIVES:
            write(log, epoch, count)
            sync(log)
            ends.append(log.end_offset)
            seal(log)
        log.truncate(6)
        ends[:] = [6]
        write(log, 9, 4)
        sync(log)
        ends.append(log.end_offset)
        stop(log)

    probe = SimDisk()
    life(probe, [])
    for crash_at in range(probe.steps):
        for seed in range(3 if mode == "torn" else 1):
            disk, ends = SimDisk(crash_at), [0]
            with pytest.raises(PowerCut):
                life(disk, ends)
            log, _ = open_at(disk.crash(mode, seed), segment_bytes=600)
            assert log.end_offset >= min(ends[-1], 6)
            assert history(log) == stamped(log), crash_at


def test_a_full_disk_loses_no_epoch() -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=600)
    write(log, 0, 2)
    sync(log)
    write(log, 3, 2)
    disk.full_at = disk.space_calls
    sync(log)
    disk.free_space()
    log, _ = open_at(disk, segment_bytes=600)
    assert history(log) == [(0, 0), (3, 2)]
    stop(log)
    assert history(open_at(disk, segment_bytes=600)[0]) == [(0, 0), (3, 2)]


# --- whose log it is ------------------------------------------------------------------------------------


def test_a_log_knows_its_topic_and_is_not_opened_for_another(disk: Disk) -> None:
    rule = RollRule(600, HOUR_MS)
    log, _ = open_log(home(disk), rule, "id-1")
    write(log, 0, 3)
    stop(log)
    again, _ = open_log(home(disk), rule, "id-1")
    assert survey(again) == [value_at(number) for number in range(3)]
    with pytest.raises(StrayLog):
        open_log(home(disk), rule, "id-2")


def test_a_log_of_an_earlier_version_is_its_topics_from_now_on(disk: Disk) -> None:
    rule = RollRule(600, HOUR_MS)
    log, _ = open_log(home(disk), rule)
    write(log, 0, 3)
    stop(log)
    log, _ = open_log(home(disk), rule, "id-1")
    log.begin_drop_head(1).run()
    stop(log)
    with pytest.raises(StrayLog):
        open_log(home(disk), rule, "id-2")
    assert msgspec.structs.asdict(open_log(home(disk), rule, "id-1")[0].notes.meta)["topic_id"] == "id-1"


def test_a_log_knows_its_topic_from_its_first_message_on(disk: Disk) -> None:
    """The process was killed before anything was synced, and the topic was made again meanwhile."""
    rule = RollRule(600, HOUR_MS)
    log, _ = open_log(home(disk), rule, "id-1")
    write(log, 0, 1)
    with pytest.raises(StrayLog):
        open_log(home(disk), rule, "id-2")
    assert open_log(home(disk), rule, "id-1", others_have_it=True)[0].end_offset == 1


def test_messages_that_a_power_cut_left_without_a_note_are_taken_only_by_who_has_no_others(disk: Disk) -> None:
    rule = RollRule(600, HOUR_MS)
    log, _ = open_log(home(disk), rule, "id-1")
    write(log, 0, 1)
    disk.remove(f"{home(disk).directory}/meta.json")
    with pytest.raises(StrayLog):
        open_log(home(disk), rule, "id-1", others_have_it=True)
    assert open_log(home(disk), rule, "id-1")[0].end_offset == 1
    sync(log)
    disk.remove(f"{home(disk).directory}/meta.json")
    assert open_log(home(disk), rule, "id-1", others_have_it=True)[0].end_offset == 1, "a sync covered them"


def test_who_got_a_compacted_log_knows_a_history_that_parts_in_a_gap() -> None:
    """Of a leader that wrote on when another had begun already. What that one wrote first is compacted away by now."""
    leader, _ = open_at(SimDisk(), segment_bytes=200)
    for epoch, key in ((5, "a"), (5, "b"), (6, "c"), (6, "d"), (6, "c"), (6, "e"), (6, "f")):
        data = batch("v" * 100, key=key)
        leader.append(data, read_header(data), epoch, 1_000)
    sync(leader)
    seal(leader)
    compact_all(leader, compacted(segment_bytes=200))
    late = LogPlace(3, 5)  # a third message of epoch 5
    assert parting(late, *end_of_epoch(leader.notes.meta.epochs, 5, leader.end_offset)) == (5, 2)
    follower, _ = open_at(SimDisk())
    for one in leader.batches(0):
        taken(follower, bytes(one))
    assert [read_header(one).base_offset for one in follower.batches(0)] == [0, 1, 3, 4, 5, 6]
    assert history(follower) == [(5, 0), (6, 2)]
    assert parting(late, *end_of_epoch(follower.notes.meta.epochs, 5, follower.end_offset)) == (5, 2)
