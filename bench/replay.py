"""A start after a power cut that left everything in a full journal and nothing in the logs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench.report import Figure
from bench.storage import open_in
from goqueue.base.log_settings import LogSettings
from goqueue.format.batch import stamp
from goqueue.format.records import NewRecord, build
from goqueue.log.journal_entries import BLOCK, FILES, JournalPart, encode_entry, encode_label
from goqueue.log.journal_replay import JournalReplay
from goqueue.log.real_disk import RealDisk
from goqueue.log.stats import StorageStats

KEY = b"benchkey"
PER_ENTRY = 64
BAR_S = 2.0


def replay_figures(root: Path) -> Iterator[Figure]:
    for logs in (8, 200):
        (home := root / f"{logs}").mkdir()
        batches = fill(home, logs)
        began = time.perf_counter()
        replayed = replay_into(home, logs)
        spent = time.perf_counter() - began
        assert replayed == batches
        name = f"replay a full journal, single messages of {logs} logs"
        yield Figure(name, f"{spent:.2f} s", f"{batches:,} batches", f"under {BAR_S:.0f} s", spent < BAR_S)


def replay_into(home: Path, logs: int) -> int:
    """How many batches the logs were given."""
    replay = JournalReplay(RealDisk(home), stats := StorageStats())
    replay.read()
    for number in range(logs):
        replay.take(open_in(home, f"logs/{number}"), "")
    replay.end()
    assert replay.damaged == 0
    return stats.journal_replayed


def fill(home: Path, logs: int) -> int:
    """Entries of 64 single messages each, for all logs in turn; how many messages."""
    file_bytes = LogSettings().journal_bytes // 2
    batch = build([NewRecord(None, b"x" * 100, (), 1_000)])
    count = number = 0
    for name in FILES:
        data = bytearray(encode_label(KEY))
        while True:
            placed = [divmod(at, logs) for at in range(count, count + PER_ENTRY)]
            parts = [JournalPart(f"logs/{log}", "", 0, b"".join(stamp(batch, at, 0))) for at, log in placed]
            entry = encode_entry(KEY, number + 1, 1, parts)
            if len(data) + len(entry) > file_bytes - BLOCK:
                break
            data += entry
            count, number = count + PER_ENTRY, number + 1
        (home / name).write_bytes(data)
    return count
