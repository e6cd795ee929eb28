"""The ring of the node's history: what was written is read again, and nothing else."""

from __future__ import annotations

import math
import os
from array import array
from pathlib import Path

import pytest

from goqueue.base.limits import HISTORY_COLUMNS_MAX, HISTORY_ROWS_MAX
from goqueue.drive.history_ring import NOTHING, HistoryColumn, HistoryRing, HistoryRow

COLUMNS = [HistoryColumn("in.messages", 1)]


def row(time_ms: int, value: float) -> HistoryRow:
    values = array("f", [NOTHING]) * HISTORY_COLUMNS_MAX
    values[0] = value
    return HistoryRow(time_ms, values)


def written(path: Path, times: range) -> None:
    ring = HistoryRing(path)
    ring.open()
    for at in times:
        ring.append(row(at, at), COLUMNS if at == times[0] else None)
    ring.close()


def test_rows_and_names_are_there_after_a_restart(tmp_path: Path) -> None:
    written(tmp_path / "h.ring", range(1, 6))
    columns, rows = HistoryRing(tmp_path / "h.ring").open()
    assert [one.name for one in columns] == ["in.messages"]
    assert [(one.time_ms, one.values[0]) for one in rows] == [(at, at) for at in range(1, 6)]
    assert math.isnan(rows[0].values[1])


def test_the_file_has_a_bound_and_the_newest_rows_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "h.ring"
    written(path, range(1, HISTORY_ROWS_MAX + 11))
    size = path.stat().st_size
    written(path, range(HISTORY_ROWS_MAX + 11, HISTORY_ROWS_MAX + 21))
    assert path.stat().st_size == size < 5_000_000
    _, rows = HistoryRing(path).open()
    assert [rows[0].time_ms, rows[-1].time_ms, len(rows)] == [21, HISTORY_ROWS_MAX + 20, HISTORY_ROWS_MAX]


def test_a_row_that_was_cut_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "h.ring"
    written(path, range(1, 4))
    data = bytearray(path.read_bytes())
    data[-9] ^= 0xFF
    path.write_bytes(data)
    _, rows = HistoryRing(path).open()
    assert [one.time_ms for one in rows] == [1, 2]
    path.write_bytes(data[:-100])
    assert len(HistoryRing(path).open()[1]) == 2


def test_a_file_that_is_something_else_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "h.ring").write_bytes(b"hello" * 100)
    (tmp_path / "h.names").write_bytes(b"{")
    ring = HistoryRing(tmp_path / "h.ring")
    assert ring.open()[0] == []
    ring.close()
    written(tmp_path / "h.ring", range(1, 3))
    assert len(HistoryRing(tmp_path / "h.ring").open()[1]) == 2


def test_damaged_names_do_not_keep_later_rows_from_being_written(tmp_path: Path) -> None:
    path = tmp_path / "h.ring"
    written(path, range(1, 4))
    (tmp_path / "h.names").write_bytes(b'[{"name":"in.mess')
    written(path, range(4, 6))
    columns, rows = HistoryRing(path).open()
    assert [one.name for one in columns] == ["in.messages"]
    assert [one.time_ms for one in rows] == [4, 5]


def test_names_that_a_full_disk_refused_are_written_with_the_next_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = HistoryRing(tmp_path / "h.ring")
    ring.open()
    ring.append(row(1, 1), [HistoryColumn("old", 1)])
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, data: len(data) // 2)
        ring.append(row(2, 2), COLUMNS)
    ring.append(row(3, 3), None)
    ring.close()
    columns, rows = HistoryRing(tmp_path / "h.ring").open()
    assert [one.name for one in columns] == ["in.messages"]
    assert [one.time_ms for one in rows] == [1, 3]
