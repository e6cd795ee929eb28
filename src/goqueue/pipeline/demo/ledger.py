"""What the demo did, line by line, so that anybody can check the pipelines against it.

`ledger.jsonl` has one line for each message that was published: where it went, and what was wrong with it. What
consumers did is counted, as messages come to them more than once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from goqueue.pipeline.demo.shop import Happening


class LedgerEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message that the node took. A delayed one has no offset here: it gets one when it is due."""

    topic: str
    partition: int
    offset: int | None
    at_ms: int
    key: str | None
    bytes: int
    lane: int
    version: int | None = None
    fate: str = "done"
    broken: str | None = None
    delay_ms: int = 0


class Ledger:
    """Open while the demo goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._lock = threading.Lock()
        self.published: Counter[str] = Counter()
        self.answers: Counter[tuple[str, str]] = Counter()  # by group and kind

    def note(self, placed: Iterable[tuple[Happening, int, int | None]]) -> None:
        """Messages with the partition and offset that each got."""
        for one, partition, offset in placed:
            self._file.write(msgspec.json.encode(entry(one, partition, offset)) + b"\n")
            self.published[one.topic] += 1

    def answered(self, group: str, kind: str, count: int) -> None:
        """From any thread."""
        with self._lock:
            self.answers[group, kind] += count

    def close(self) -> None:
        self._file.close()


def entry(one: Happening, partition: int, offset: int | None) -> LedgerEntry:
    size = len(one.value) + len((one.key or "").encode())
    told = one.version, one.fate, one.broken, one.delay_ms
    return LedgerEntry(one.topic, partition, offset, one.at_ms, one.key, size, one.lane, *told)


def entries(path: Path) -> Iterator[LedgerEntry]:
    """All lines of a ledger, as they were written."""
    decoder = msgspec.json.Decoder(LedgerEntry)
    with path.open("rb") as file:
        yield from map(decoder.decode, file)
