"""What is pending, by time: a derived index of the schedule log in one SQLite file.

It holds places and times, never payloads. How far into the log it goes is written in the same transaction as what it
learned, so a start reads only the log's tail. If the file is missing, damaged, of another log or ahead of it, it is
made anew from the log. A call that fails closes it: nothing that is in memory outlives a write that did not happen, and
`open` goes on from what the file really holds. Where the disk has no room for the file it lives in memory, as it does
until there is something to learn.
Everything here blocks: run it off the loop, one call at a time.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.base.decoders import from_msgpack
from goqueue.base.ids import Millis, Offset
from goqueue.core.schedule.due import BEFORE_ALL, Due, DueKey
from goqueue.core.schedule.records import EntryEnded, Fired, Firing, NextDue, OriginBatch, ScheduleEntry, ScheduleRecord
from goqueue.log.private import create_private

logger = logging.getLogger(__name__)

IN_MEMORY: Final = ":memory:"


def index_path(first: str, schedule: int) -> str:
    """Of one of a node's schedules, where the first one has that path."""
    path = Path(first)
    return first if first == IN_MEMORY or not schedule else str(path.with_stem(f"{path.stem}-{schedule}"))


_VERSION: Final = 2  # an index of version 1 may name the wrong topics: it could be written on after a full disk
_ENDED_KEPT: Final = 100_000
_STEPS_MAX: Final = 10_000  # of a calendar
_CACHE_KIB: Final = 16_384  # of all indexes of a node
_TABLES: Final = f"""
CREATE TABLE facts (log_id TEXT, applied INTEGER);
CREATE TABLE topics (number INTEGER PRIMARY KEY, id TEXT UNIQUE);
CREATE TABLE pending (offset INTEGER PRIMARY KEY, due INTEGER, topic INTEGER, partition INTEGER, count INTEGER);
CREATE INDEX by_due ON pending (due, topic);
CREATE TABLE ended (offset INTEGER PRIMARY KEY, topic INTEGER, partition INTEGER, due INTEGER, state TEXT, at INTEGER);
CREATE INDEX by_end ON ended (at);
CREATE TABLE firings (offset INTEGER PRIMARY KEY, firing BLOB);
CREATE TABLE unsure (offset INTEGER PRIMARY KEY, topic INTEGER, partition INTEGER, origin BLOB);
PRAGMA user_version = {_VERSION};
"""
_NAMELESS: Final = "SELECT 1 FROM {table} WHERE topic NOT IN (SELECT number FROM topics) LIMIT 1"


class Unsure(msgspec.Struct, frozen=True):
    """An entry that counts only if the rest of its producer's batch is in the log."""

    offset: Offset
    topic_id: str
    partition: int
    origin: OriginBatch


class ScheduleIndex:
    """Open it with `open`, bring it up to the log with `apply`."""

    def __init__(self, path: str = IN_MEMORY, schedules: int = 1) -> None:
        """One of so many on the node, which share what they keep in memory."""
        self._path = path
        self._cache_kib = max(1_024, _CACHE_KIB // schedules)
        self._log_id = ""
        self._is_blank = False  # in memory, without a file
        self._db: sqlite3.Connection | None = None
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}

    # --- open and close ------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """False before `open`, and after a call that failed."""
        return self._db is not None

    def open(self, log_id: str, end_offset: Offset) -> Offset:
        """How far it goes; 0 if it had to be made anew."""
        self._log_id = log_id
        if not end_offset:
            self._make(IN_MEMORY)
            self._is_blank = self._path != IN_MEMORY
            return 0
        try:
            self._connect(self._path)
            applied = self._applied(log_id)
            if applied is not None and applied <= end_offset:
                self._learn_topics()
                return applied
            if applied is not None:
                logger.warning("schedule index is ahead of its log, made anew", extra={"path": self._path})
        except sqlite3.Error as error:
            logger.warning("schedule index unreadable, made anew", extra={"path": self._path, "error": str(error)})
        self._make_anew()
        return 0

    def _make_anew(self) -> None:
        try:
            self._make(self._path)
        except (sqlite3.Error, OSError) as error:
            logger.error(
                "schedule index cannot be stored; kept in memory", extra={"path": self._path, "error": str(error)}
            )
            self._make(IN_MEMORY)

    def _connect(self, path: str) -> sqlite3.Connection:
        if path != IN_MEMORY:
            with contextlib.suppress(OSError):  # SQLite says it again, in its own words
                create_private(Path(path))  # its companions get the same rights
        self._db = db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA cache_size = -{self._cache_kib}")
        return db

    def _applied(self, log_id: str) -> Offset | None:
        """How far it goes, if it is sound and of that log."""
        if self._one("PRAGMA user_version") != _VERSION or self._one("PRAGMA quick_check(1)") != "ok":
            return None
        if any(self._rows(_NAMELESS.format(table=table)) for table in ("pending", "ended", "unsure")):
            return None
        row = self._rows("SELECT applied FROM facts WHERE log_id = ?", (log_id,))
        return int(row[0][0]) if row else None

    def _make(self, path: str) -> None:
        self.discard()
        db = self._connect(path)
        db.executescript(_TABLES)
        db.execute("INSERT INTO facts VALUES (?, 0)", (self._log_id,))

    def _learn_topics(self) -> None:
        self._ids = {int(number): str(one) for number, one in self._rows("SELECT number, id FROM topics")}
        self._numbers = {one: number for number, one in self._ids.items()}

    def close(self) -> None:
        """What was not committed never was."""
        self._numbers, self._ids = {}, {}
        self._is_blank = False
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def discard(self) -> None:
        """It is not believed: the next `open` makes it anew."""
        self.close()
        if self._path != IN_MEMORY:
            for suffix in ("", "-wal", "-shm", "-journal"):
                Path(self._path + suffix).unlink(missing_ok=True)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. SQLite itself rolls back what finds no space, so a second rollback is no cure: it closes."""
        db = self._open_db()
        try:
            db.execute("BEGIN")
            yield db
            db.execute("COMMIT")
        except BaseException:
            self.close()
            raise

    # --- learn ---------------------------------------------------------------------------------------------

    def apply(self, records: Sequence[tuple[Offset, ScheduleRecord]], applied: Offset) -> None:
        """Takes in records of the log, in their order; the log is known up to `applied` then."""
        if records and self._is_blank:
            self._make_anew()
        with self._transaction() as db:
            for kind, run in groupby(records, lambda one: type(one[1])):
                self._apply_run(db, kind, list(run))
            db.execute("UPDATE facts SET applied = max(applied, ?)", (applied,))

    def _apply_run(self, db: sqlite3.Connection, kind: type, run: Sequence[tuple[Offset, Any]]) -> None:
        """Records of one kind that follow each other."""
        if kind is ScheduleEntry:
            rows = [(at, one.due_ms, self._number(one.topic_id), one.partition, 0) for at, one in run]
            db.executemany("REPLACE INTO pending VALUES (?, ?, ?, ?, ?)", rows)
            taken = [
                (at, self._number(one.topic_id), one.partition, msgspec.msgpack.encode(one.origin))
                for at, one in run
                if one.origin is not None
            ]
            db.executemany("REPLACE INTO unsure VALUES (?, ?, ?, ?)", taken)
        elif kind is Firing:
            db.executemany("REPLACE INTO firings VALUES (?, ?)", [(at, msgspec.msgpack.encode(one)) for at, one in run])
            gone = ((offset,) for _, one in run for offset, _ in one.entries)
            db.executemany("DELETE FROM pending WHERE offset = ?", gone)
        elif kind is NextDue:
            moved = [(n.offset, n.due_ms, self._number(n.topic_id), n.partition, n.count) for _, n in run]
            db.executemany("REPLACE INTO pending VALUES (?, ?, ?, ?, ?)", moved)
        elif kind is EntryEnded:
            for table in ("pending", "unsure"):
                db.executemany(f"DELETE FROM {table} WHERE offset = ?", [(one.offset,) for _, one in run])
            ends = [
                (one.offset, self._number(one.topic_id), one.partition, one.due_ms, one.state, one.ended_ms)
                for _, one in run
            ]
            db.executemany("REPLACE INTO ended VALUES (?, ?, ?, ?, ?, ?)", ends)
        elif kind is Fired:
            db.executemany("DELETE FROM firings WHERE offset = ?", [(one.offset,) for _, one in run])

    def forget_old_ends(self) -> None:
        """Of the entries that are done only the last are remembered."""
        surplus = int(self._one("SELECT count(*) FROM ended") or 0) - _ENDED_KEPT
        if surplus > 0:
            with self._transaction() as db:
                oldest = "SELECT offset FROM ended ORDER BY at, offset LIMIT ?"
                db.execute(f"DELETE FROM ended WHERE offset IN ({oldest})", (surplus,))

    def sure(self, offsets: Sequence[Offset]) -> None:
        """These entries need no second look at the next start."""
        with self._transaction() as db:
            db.executemany("DELETE FROM unsure WHERE offset = ?", [(offset,) for offset in offsets])

    # --- look ----------------------------------------------------------------------------------------------

    def pending_counts(self) -> dict[str, int]:
        """By topic id."""
        rows = self._rows("SELECT topic, count(*) FROM pending GROUP BY topic")
        return {self._ids[topic]: count for topic, count in rows}

    def next_due(self) -> Millis | None:
        found = self._one("SELECT min(due) FROM pending")
        return None if found is None else int(found)

    def window(self, start: Millis, end: Millis, limit: int) -> list[Due]:
        """Pending entries due in [start, end), by time, at most so many; with the last one all of its time."""
        order = "ORDER BY due LIMIT ?"
        found = self._dues("WHERE due >= ? AND due < ?", order, (start, end, limit))
        if len(found) < limit:
            return found
        last = found[-1].due_ms
        return [one for one in found if one.due_ms < last] + self._dues("WHERE due = ?", "", (last,))

    def of_topic(self, topic_id: str, limit: int, skip: int, after: DueKey = BEFORE_ALL) -> list[Due]:
        """Pending entries of a topic, by time, of those behind a place."""
        number = self._numbers.get(topic_id, -1)
        # What is skipped is counted in the index of times alone.
        page = (
            "SELECT offset FROM pending INDEXED BY by_due WHERE topic = ? AND (due, offset) > (?, ?) "
            "ORDER BY due, offset LIMIT ? OFFSET ?"
        )
        return self._dues(f"WHERE offset IN ({page})", "ORDER BY due, offset", (number, *after, limit, skip))

    def due_counts(self, topic_id: str, step_ms: Millis) -> dict[Millis, int]:
        """How many entries of a topic are due in each step that has any, by the step's beginning."""
        number = self._numbers.get(topic_id, -1)
        text = (
            "SELECT due / ? * ?, count(*) FROM pending INDEXED BY by_due WHERE topic = ? GROUP BY 1 ORDER BY 1 LIMIT ?"
        )
        return {int(due): int(count) for due, count in self._rows(text, (step_ms, step_ms, number, _STEPS_MAX))}

    def due_ends(self, topic_id: str) -> tuple[Millis, Millis] | None:
        """When the first and the last entry of a topic are due."""
        number = self._numbers.get(topic_id, -1)
        ((first, last),) = self._rows("SELECT min(due), max(due) FROM pending WHERE topic = ?", (number,))
        return None if first is None else (int(first), int(last))

    def find(self, offset: Offset) -> Due | EntryEnded | None:
        """A pending entry, or what became of it; None if it is unknown or long done."""
        pending = self._dues("WHERE offset = ?", "", (offset,))
        if pending:
            return pending[0]
        rows = self._rows("SELECT topic, partition, due, state, at FROM ended WHERE offset = ?", (offset,))
        if not rows:
            return None
        topic, partition, due, state, at = rows[0]
        return EntryEnded(offset, self._ids[topic], partition, due, state, at)

    def topic_ids(self) -> list[str]:
        """Of everything that is pending."""
        return list(self.pending_counts())

    def firings(self) -> list[tuple[Offset, Firing]]:
        """Those that are not known to be safe in their logs, in order."""
        rows = self._rows("SELECT offset, firing FROM firings ORDER BY offset")
        return [(int(at), from_msgpack(raw, Firing)) for at, raw in rows]

    def unsure(self) -> list[Unsure]:
        rows = self._rows("SELECT offset, topic, partition, origin FROM unsure ORDER BY offset")
        return [
            Unsure(int(at), self._ids[int(topic)], int(partition), from_msgpack(origin, OriginBatch))
            for at, topic, partition, origin in rows
        ]

    def _dues(self, where: str, rest: str, given: tuple[object, ...]) -> list[Due]:
        rows = self._open_db().execute(
            f"SELECT offset, due, topic, partition, count FROM pending {where} {rest}", given
        )
        return [Due(offset, due, self._ids[topic], partition, count) for offset, due, topic, partition, count in rows]

    def _number(self, topic_id: str) -> int:
        number = self._numbers.get(topic_id)
        if number is None:
            self._open_db().execute("INSERT OR IGNORE INTO topics (id) VALUES (?)", (topic_id,))
            (row,) = self._rows("SELECT number FROM topics WHERE id = ?", (topic_id,))
            number = self._numbers[topic_id] = int(row[0])
            self._ids[number] = topic_id
        return number

    def _rows(self, text: str, given: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return self._open_db().execute(text, given).fetchall()

    def _one(self, text: str) -> Any:
        row = self._open_db().execute(text).fetchone()
        return None if row is None else row[0]

    def _open_db(self) -> sqlite3.Connection:
        if self._db is None:
            raise sqlite3.ProgrammingError("The schedule's index is closed.")
        return self._db
