"""The hour itself, in two halves: the shop's messages are published, and its staff sees to them.

Between the halves the shop's web site changes the form of its orders, which is a new version of their schema.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Final

from goqueue.client import Client
from goqueue.pipeline.demo.ledger import Ledger
from goqueue.pipeline.demo.publishing import publish
from goqueue.pipeline.demo.schemas import FIRST, SECOND, register
from goqueue.pipeline.demo.shop import HALF, MINUTES, TOPICS, Shop
from goqueue.pipeline.demo.staff import GROUPS, StaffGroup, work
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.running import Progress

_LOOK_EVERY_S: Final = 0.5
_WORK_S_MAX: Final = 600.0
_SETTINGS: Final[dict[str, str | int | float | None]] = {
    "queue.max.failures": 3,
    "queue.retry.ms": 100,
    "queue.retry.max.ms": 400,
    "queue.expired.dead.letter": "true",
}
Look = Callable[[], None]


class Trade:
    """One hour of the shop on one node, which ends at `now_ms`. `look` is called all the while the staff works."""

    def __init__(self, kafka: str, url: str, ledger: Path, look: Look) -> None:
        self._kafka, self._url, self._look = kafka, url, look
        self._ids: dict[tuple[str, int], int] = {}
        self.ledger = Ledger(ledger)

    def open(self, seed: int, scale: int, now_ms: int) -> None:
        """Topics, and the shop before its first customer. Its minutes are those of the clock."""
        with Client(self._url) as client:
            for topic, partitions in TOPICS.items():
                client.create_topic(topic, partitions, _SETTINGS)
        start_ms = (now_ms - MINUTES * 60_000) // 60_000 * 60_000
        self._scale = scale
        self._hour = Shop(seed, scale, start_ms, self._ids).hour()

    def first_half(self, progress: Progress) -> None:
        self._half("first", FIRST, progress)

    def second_half(self, progress: Progress) -> None:
        self._half("second", SECOND, progress)
        self.ledger.close()

    def _half(self, name: str, schemas: tuple[tuple[str, int], ...], progress: Progress) -> None:
        with Client(self._url) as client:
            self._ids |= register(client, schemas)
        told, before = f"publishing the {name} half hour", sum(self.ledger.published.values())
        some = islice(self._hour, HALF)
        publish(
            self._kafka, self._url, some, self.ledger, lambda count: progress.step(told, before + count, self._scale)
        )
        self._work(progress)

    def _work(self, progress: Progress) -> None:
        """All groups at once, until they are done."""
        over = threading.Event()
        began = time.monotonic()

        def has_time() -> bool:
            return not over.is_set() and time.monotonic() - began < _WORK_S_MAX

        staff = [_Member(self._url, group, self.ledger, has_time) for group in GROUPS]
        try:
            for member in staff:
                member.start()
            while any(member.is_alive() for member in staff):
                self._look()
                progress.step("packing, billing and watching trends", self._done())
                staff[0].join(_LOOK_EVERY_S)
        finally:
            over.set()
            for member in staff:
                member.join()
        _check(staff)

    def _done(self) -> int:
        return sum(count for (_, kind), count in self.ledger.answers.copy().items() if kind == "ack")


class _Member(threading.Thread):
    """One consumer, and how it ended."""

    def __init__(self, url: str, group: StaffGroup, ledger: Ledger, has_time: Callable[[], bool]) -> None:
        super().__init__(name=group.name, daemon=True)
        self._work = url, group, ledger.published[group.topic], ledger, has_time
        self.why: Exception | None = None

    def run(self) -> None:
        try:
            work(*self._work)
        except Exception as error:
            self.why = error


def _check(staff: list[_Member]) -> None:
    for member in staff:
        if member.why is not None:
            raise PipelineError(f"The demo's group {member.name} failed: {member.why}") from member.why
