"""How far a redrive got, and whether it can go on."""

from __future__ import annotations

import asyncio

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.ids import Millis
from goqueue.core.redrive import SOURCE_GONE, TARGET_GONE, RedriveTask, eta_ms, per_second
from goqueue.core.token_bucket import TokenBucket
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.topics import Topics


class RedriveRun:
    """A redrive under way."""

    def __init__(self, task: RedriveTask, now: Millis) -> None:
        self.task = task
        self.pace = TokenBucket(task.pace, now)
        self.cancelled = asyncio.Event()
        self.began_ms = self.noted_ms = now
        self.looked_at = 0
        self.moved: int | None = None  # both when this run began
        self.loop: asyncio.Task[None] | None = None


class RedriveTracker:
    """Counts in the views of the dead letters, which know what was moved whatever happens."""

    def __init__(self, letters: DeadLetterView, topics: Topics, clock: SteadyClock) -> None:
        self._letters = letters
        self._topics = topics
        self._clock = clock

    def source(self, task: RedriveTask) -> Topic | None:
        topic = self._topics.find(task.source)
        return topic if topic is not None and topic.record.id == task.source_id else None

    def partitions(self, task: RedriveTask) -> list[Partition]:
        """Those that it is about: other nodes have their own shares."""
        topic = self.source(task)
        return [] if topic is None else [one for one in topic.partitions if one.at.partition in task.ends]

    def lost(self, task: RedriveTask) -> str:
        """Why it cannot go on; empty if it can."""
        if task.source_id and self.source(task) is None:
            return SOURCE_GONE
        return TARGET_GONE if task.to is not None and self._topics.find(task.to) is None else ""

    def moved(self, task: RedriveTask) -> int:
        if self.source(task) is None:
            return task.moved
        led = filter(self._letters.leads, self.partitions(task))
        return sum(self._letters.redriven(partition, task.id) for partition in led)

    def looked_at(self, task: RedriveTask) -> int:
        if self.source(task) is None:
            return task.looked_at
        led = filter(self._letters.leads, self.partitions(task))
        places = [(one, task.cursors.get(one.at.partition, 0), task.ends[one.at.partition]) for one in led]
        return max(0, task.total - sum(self._letters.count(*place) for place in places))

    def of(self, run: RedriveRun) -> RedriveTask:
        """The task as it stands."""
        moved = self.moved(run.task)
        elapsed_ms = self._clock.monotonic_ms() - run.began_ms
        task = msgspec.structs.replace(
            run.task,
            moved=moved,
            looked_at=self.looked_at(run.task),
            moved_per_s=per_second(moved - (moved if run.moved is None else run.moved), elapsed_ms),
        )
        return msgspec.structs.replace(task, eta_ms=eta_ms(task, task.looked_at - run.looked_at, elapsed_ms))
