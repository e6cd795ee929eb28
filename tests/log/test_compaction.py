"""Compaction: what stays, what goes, where it stands afterwards, and who may read meanwhile."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.topic_config import TopicConfig
from goqueue.format.batch import assemble, read_header, split, verified_header, verify
from goqueue.format.records import NewRecord, build
from goqueue.log.compaction import Swap, compact, is_due
from goqueue.log.disk import Disk
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reader import read_batches
from goqueue.sim.disk import PowerCut, SimDisk
from tests.format import by_hand
from tests.log.logs import (
    DIRECTORY,
    HOUR_MS,
    append,
    batch,
    batch_starts,
    compact_all,
    compacted,
    fill,
    flip,
    look,
    open_at,
    read_all,
    seal,
    stop,
    survey,
    sync,
    tombstone,
    value_at,
)

DAY_MS = 24 * HOUR_MS


def sealed_log(disk: Disk, keys: list[str | None], segment_bytes: int = 600, **options: int) -> PartitionLog:
    """One record a key, all but the active segment sealed."""
    log, _ = open_at(disk, segment_bytes=segment_bytes, **options)
    for number, key in enumerate(keys):
        append(log, batch(value_at(number), key=key, time=1_000 + number))
    sync(log)
    seal(log)
    return log


def last_of(keys: list[str | None], sealed_to: int) -> list[int]:
    """Offsets that must survive: the keyless, the last of each key among the sealed, and all that is not sealed."""
    last = {key: at for at, key in enumerate(keys[:sealed_to])}
    return [at for at, key in enumerate(keys) if key is None or at >= sealed_to or last[key] == at]


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in read_all(log)]


def test_the_last_value_of_every_key_stays_at_its_offset(disk: Disk) -> None:
    keys: list[str | None] = [f"k{number % 3}" for number in range(20)]
    log = sealed_log(disk, keys)
    active = log.segments[-1].base_offset
    compact_all(log, compacted(segment_bytes=600))
    assert offsets(log) == last_of(keys, active)
    assert all((record.value or b"").decode() == value_at(record.offset) for record in read_all(log))
    assert (log.start_offset, log.end_offset) == (0, 20)


def test_records_without_a_key_stay_in_order(disk: Disk) -> None:
    keys: list[str | None] = ["a", None, "a", None] * 6
    log = sealed_log(disk, keys)
    active = log.segments[-1].base_offset
    compact_all(log, compacted(segment_bytes=600))
    assert offsets(log) == last_of(keys, active)


@settings(deadline=None, max_examples=60)
@given(
    keys=st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=40),
    segment_bytes=st.integers(200, 1_500),
    merged_bytes=st.integers(200, 4_000),
    rounds=st.integers(1, 3),
    reopens=st.booleans(),
)
def test_any_mix_of_keys_keeps_exactly_its_last_values(
    keys: list[str | None], segment_bytes: int, merged_bytes: int, rounds: int, reopens: bool
) -> None:
    disk = SimDisk()
    log, _ = open_at(disk, segment_bytes=segment_bytes, interval=100, open_max=2)
    for turn in range(rounds):
        for key in keys:
            append(log, batch(value_at(log.end_offset), key=key))
        sync(log)
        seal(log)
        compact_all(log, compacted(segment_bytes=merged_bytes), now=5_000 + turn)
    everything = keys * rounds
    survivors = last_of(everything, log.segments[-1].base_offset)
    if reopens:
        stop(log)
        log, found = open_at(disk, segment_bytes=segment_bytes, interval=100, open_max=2)
        assert found.was_clean and not found.damaged_ranges
    assert (log.start_offset, log.end_offset) == (0, len(everything))
    present = {offset: value for offset, value in enumerate(survey(log)) if value != "missing"}
    assert present == {offset: value_at(offset) for offset in survivors}


def test_a_batch_keeps_its_survivors_and_its_last_offset(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=300)
    append(log, build([NewRecord(key, b"v" * 20, (("h", b"1"),), 1_000) for key in (b"a", b"b", b"c", b"d")]))
    append(log, build([NewRecord(key, b"w" * 20, (), 2_000) for key in (b"b", b"d")]))
    append(log, batch("z" * 200))
    sync(log)
    seal(log)
    compact_all(log, compacted())
    first = next(split(log.read(0, 1, 6, wait=True)))
    header = read_header(first)
    verify(first, header)
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 3, 2)
    assert [(record.offset, record.headers) for record in read_all(log)][:2] == [
        (0, (("h", b"1"),)),
        (2, (("h", b"1"),)),
    ]


@pytest.mark.parametrize("codec", range(1, 5))
def test_compressed_batches_stay_compressed_with_the_same_codec(disk: Disk, codec: int) -> None:
    log, _ = open_at(disk, segment_bytes=600)
    for number in range(12):
        records = [NewRecord(key, f"{number}".encode() * 300, (), 1_000) for key in (b"k", f"u{number}".encode())]
        append(log, build(records, codec))
    sync(log)
    seal(log)
    compact_all(log, compacted(segment_bytes=600))
    data = log.read(0, 1, log.end_offset, wait=True)
    assert read_header(data).codec == codec and read_header(data).record_count == 1
    assert [record.key for record in read_all(log)][:2] == [b"u0", b"u1"]


# --- tombstones -----------------------------------------------------------------------------------------


def test_a_tombstone_deletes_its_key_and_stays_a_day(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=400)
    append(log, batch("old" * 30, key="k"))
    append(log, tombstone("k"))
    append(log, batch("x" * 300, key="other"))
    append(log, batch("x" * 300, key="more"))
    sync(log)
    seal(log)
    config = compacted(segment_bytes=400)
    compact_all(log, config, now=10 * DAY_MS)
    assert [(record.key, record.value is None) for record in read_all(log)].count((b"k", True)) == 1
    assert b"old" * 30 not in [record.value for record in read_all(log)]
    assert not is_due(log, config, 11 * DAY_MS - 1)
    compact_all(log, config, now=11 * DAY_MS - 1)
    assert b"k" in [record.key for record in read_all(log)]
    assert is_due(log, config, 11 * DAY_MS)
    compact_all(log, config, now=11 * DAY_MS)
    assert b"k" not in [record.key for record in read_all(log)]
    assert not is_due(log, config, 99 * DAY_MS)
    assert log.end_offset == 4


def test_the_last_tombstone_of_a_log_stays_until_something_follows_it(disk: Disk) -> None:
    """Who copies the log would not get to its end. Its day begins then; until then there is nothing to do."""
    log, _ = open_at(disk)
    config = compacted()
    append(log, batch("value", key="k"))
    append(log, tombstone("k"))
    log.roll()
    seal(log)
    compact_all(log, config, now=5_000)
    compact_all(log, config, now=5_000 + DAY_MS)
    assert [record.offset for record in read_all(log)] == [1]
    assert not is_due(log, config, 5_001 + DAY_MS)
    append(log, batch("another", key="l"))
    compact_all(log, config, now=5_000 + 2 * DAY_MS)
    assert [record.offset for record in read_all(log)] == [1, 2]
    compact_all(log, config, now=5_000 + 3 * DAY_MS)
    assert [record.offset for record in read_all(log)] == [2]


def test_a_log_whose_last_message_is_a_tombstone_is_not_rewritten_while_it_is_idle(disk: Disk) -> None:
    """Also where tombstones are not kept at all."""
    log, _ = open_at(disk)
    config = compacted(delete_retention_ms=0)
    append(log, batch("value", key="k"))
    append(log, tombstone("k"))
    log.roll()
    seal(log)
    compact_all(log, config, now=5_000)
    compact_all(log, config, now=6_000)
    assert [record.offset for record in read_all(log)] == [1]
    assert not is_due(log, config, 7_000) and not is_due(log, config, 7_000 + 10 * DAY_MS)


def test_the_day_of_a_tombstone_goes_on_over_a_restart(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=300)
    append(log, tombstone("k"))
    append(log, batch("x" * 300, key="other"))
    sync(log)
    seal(log)
    config = compacted(segment_bytes=300)
    compact_all(log, config, now=10 * DAY_MS)
    stop(log)
    log, _ = open_at(disk, segment_bytes=300)
    assert not is_due(log, config, 11 * DAY_MS - 1) and is_due(log, config, 11 * DAY_MS)
    compact_all(log, config, now=11 * DAY_MS)
    assert [record.key for record in read_all(log)] == [b"other"]


def test_a_merge_gives_tombstones_the_longer_time(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=300)
    config = compacted(segment_bytes=5_000)
    append(log, tombstone("first"))
    append(log, batch("x" * 300, key="other"))
    sync(log)
    seal(log)
    compact_all(log, config, now=10 * DAY_MS)
    append(log, tombstone("second"))
    append(log, batch("x" * 300, key="more"))
    sync(log)
    seal(log)
    compact_all(log, config, now=10 * DAY_MS + HOUR_MS)
    compact_all(log, config, now=11 * DAY_MS)
    assert b"second" in [record.key for record in read_all(log)]
    compact_all(log, config, now=11 * DAY_MS + HOUR_MS)
    assert not {b"first", b"second"} & {record.key for record in read_all(log)}


def test_a_value_written_after_the_tombstone_stays(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=300)
    append(log, tombstone("k"))
    append(log, batch("again", key="k"))
    append(log, batch("x" * 300))
    sync(log)
    seal(log)
    for day in (10, 12):
        compact_all(log, compacted(segment_bytes=300), now=day * DAY_MS)
        assert (b"k", b"again") in [(record.key, record.value) for record in read_all(log)]


# --- segments -------------------------------------------------------------------------------------------


def test_small_neighbours_are_merged_and_the_superfluous_files_go(disk: Disk) -> None:
    log = sealed_log(disk, [f"k{number % 2}" for number in range(30)])
    before = len(log.segments)
    compact_all(log, compacted(segment_bytes=2_000))
    assert len(log.segments) < before
    assert all(segment.length <= 2_000 for segment in log.segments)
    on_disk = [name for name in disk.names(DIRECTORY) if name.endswith(".log")]
    assert on_disk == [f"{segment.base_offset:020d}.log" for segment in log.segments]
    assert not [name for name in disk.names(DIRECTORY) if "compact" in name]


def test_a_compacted_log_reopens_clean_and_unchanged(disk: Disk) -> None:
    log = sealed_log(disk, [f"k{number % 4}" for number in range(30)])
    compact_all(log, compacted(segment_bytes=1_300))
    before = survey(log)
    stop(log)
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and not found.damaged_ranges and survey(log) == before
    assert log.notes.meta.compacted_to > 0 and not is_due(log, compacted(), 6_000)


def test_a_segment_may_lose_all_its_records(disk: Disk) -> None:
    log = sealed_log(disk, ["k"] * 12)
    compact_all(log, compacted(segment_bytes=600))
    assert log.segments[0].length == 0
    assert offsets(log)[0] == log.segments[-1].base_offset - 1
    for offset in range(log.end_offset):
        assert log.read(offset, 1, log.end_offset, wait=True)
    stop(log)
    log, found = open_at(disk, segment_bytes=600)
    assert found.was_clean and log.read(0, 1, 12, wait=True)


def test_appends_go_on_while_a_pass_runs(disk: Disk) -> None:
    log = sealed_log(disk, [f"k{number % 3}" for number in range(20)])
    log.begin_gaps().run()
    for step in compact(log, compacted(segment_bytes=600), 5_000):
        append(log, batch(value_at(log.end_offset), key="new"))
        if isinstance(step, Swap):
            step.run()
            append(log, batch(value_at(log.end_offset), key="new"))
            log.swap(step.old, step.new)
            step.clean_up()
    found = offsets(log)
    assert found[-1] == log.end_offset - 1 and set(range(20, log.end_offset)) <= set(found)


def test_a_reader_of_the_old_segment_reads_on_during_a_swap(disk: Disk) -> None:
    log = sealed_log(disk, [f"k{number % 3}" for number in range(20)])
    log.begin_gaps().run()
    for step in compact(log, compacted(segment_bytes=600), 5_000):
        if isinstance(step, Swap):
            old = list(step.old)
            read = [read_batches(one, one.base_offset, 9_999, one.next_offset, True) for one in old]
            step.run()
            assert read == [read_batches(one, one.base_offset, 9_999, one.next_offset, True) for one in old]
            log.swap(step.old, step.new)
            step.clean_up()
            assert read == [read_batches(one, one.base_offset, 9_999, one.next_offset, True) for one in old]


def test_a_replaced_segment_is_not_let_go_while_somebody_reads_it(disk: Disk) -> None:
    log = sealed_log(disk, [f"k{number % 3}" for number in range(20)], open_max=1)
    log.begin_gaps().run()
    step = next(step for step in compact(log, compacted(segment_bytes=600), 5_000) if isinstance(step, Swap))
    step.run()
    old = step.old[0]
    before = read_batches(old, 0, 9_999, old.next_offset, True)
    look(log, log.segments[1].base_offset)
    assert read_batches(old, 0, 9_999, old.next_offset, True) == before
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".damage")]


def test_a_pass_is_due_when_enough_is_new(disk: Disk) -> None:
    log = sealed_log(disk, [f"k{number % 4}" for number in range(30)])
    config = TopicConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=0.5, segment_bytes=600)
    assert is_due(log, config, 1_000)
    assert not is_due(log, TopicConfig(), 1_000), "the topic does not compact"
    compact_all(log, config)
    assert not is_due(log, config, 1_000)


def test_control_batches_stay(disk: Disk) -> None:
    log, _ = open_at(disk, segment_bytes=300)
    marker = by_hand.batch(by_hand.record(0, 0, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00"), 1, attributes=0x30)
    for _ in range(3):
        append(log, marker)
        append(log, batch("x" * 250, key="k"))
    sync(log)
    seal(log)
    compact_all(log, compacted(segment_bytes=300))
    assert {0, 2, 4} <= set(offsets(log))


# --- damage and odd input -------------------------------------------------------------------------------


def test_a_damaged_segment_and_all_behind_it_are_left_as_they_are(disk: Disk) -> None:
    keys: list[str | None] = [f"k{number % 3}" for number in range(24)]
    log = sealed_log(disk, keys)
    second = log.segments[1]
    stop(log)
    starts = batch_starts(disk, second.path(".log"))
    flip(disk, second.path(".log"), starts[1] + 80)
    log, _ = open_at(disk, segment_bytes=600)
    compact_all(log, compacted(segment_bytes=600))
    found = survey(log)
    bad = second.base_offset + 1
    assert found[bad] == "damaged"
    assert found[second.base_offset :] == [
        value_at(number) if number != bad else "damaged" for number in range(second.base_offset, 24)
    ]


def test_a_long_lived_log_of_few_keys_is_still_merged_and_indexed() -> None:
    log, _ = open_at(SimDisk(), segment_bytes=100_000, interval=1)
    for number in range(4):
        data = build([NewRecord(f"k{number}".encode(), b"v", (), 1_000)])
        far = msgspec.structs.replace(read_header(data), last_offset_delta=2**31 - 1)
        append(log, assemble(far, data[61:]))
    sync(log)
    seal(log)
    compact_all(log, compacted(segment_bytes=100_000))
    assert log.end_offset == 4 * 2**31


def test_a_malformed_batch_does_not_stop_compaction_for_good() -> None:
    log, _ = open_at(SimDisk(), segment_bytes=600)
    malformed = by_hand.batch(b"\x7f" * 50, 1)
    verified_header(malformed)
    append(log, malformed)
    for _ in range(12):
        append(log, batch("x" * 60, key="k"))
    sync(log)
    seal(log)
    compact_all(log, compacted(segment_bytes=600))
    assert log.notes.meta.compacted_to > 0


def test_a_crash_in_a_merge_makes_no_damage_of_what_was_compacted_away() -> None:
    # The second of two merged segments keeps only its first record, so the merged file ends early.
    keys = [*(f"u{number}" for number in range(4)), "s", "a", "b", "c", "a", "b", "c", "t", "a", "b", "c", "q"]
    crash_at = 0
    while True:
        disk = SimDisk(crash_at)
        try:
            log, _ = open_at(disk, segment_bytes=600)
            fill(log, 16, keys=keys)
            sync(log)
            seal(log)
            compact_all(log, compacted(segment_bytes=1_300))
            return
        except PowerCut:
            pass
        log, found = open_at(disk.crash("kept"), segment_bytes=600)
        assert not found.damaged_ranges, crash_at
        crash_at += 1
