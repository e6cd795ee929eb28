"""Who waits for messages, in line. News of a partition wakes one; who finds more than it needs wakes the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from goqueue.base.ids import TopicPartition
from goqueue.drive.partition import Partition


class Waiter:
    """One consumer in line at all partitions that it takes from."""

    __slots__ = ("group", "partitions", "woken")

    def __init__(self, group: str, partitions: Sequence[Partition]) -> None:
        self.group = group
        self.partitions = partitions
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def interrupted(self, _: asyncio.Future[None]) -> None:
        """As a callback of who else may end its wait."""
        self.wake()


class _Stop:
    """Where a partition's lines are: one for each group. The partition is watched while there is any."""

    __slots__ = ("is_watching", "lines", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.lines: dict[str, deque[Waiter]] = {}
        self.is_watching = False

    def watch(self) -> None:
        if not self.is_watching and self.lines and not self.partition.is_closed:
            self.is_watching = True
            self.partition.hear_news(self._news)

    def unwatch(self) -> None:
        if self.is_watching:
            self.is_watching = False
            self.partition.unhear_news(self._news)

    def _news(self) -> None:
        """At once: what a waiter is handed goes into the same round of the group commit as what woke it."""
        self.is_watching = False
        for group in list(self.lines):
            self.wake_one(group)
        self.watch()

    def wake_one(self, group: str) -> None:
        line = self.lines.get(group)
        while line:
            waiter = line.popleft()
            if not waiter.woken.done():
                waiter.wake()
                break
        if line is not None and not line:
            del self.lines[group]

    def leave(self, waiter: Waiter) -> None:
        line = self.lines.get(waiter.group)
        if line is not None and waiter in line:
            line.remove(waiter)
            if not line:
                del self.lines[waiter.group]


class WaitQueue:
    """All lines of a node."""

    def __init__(self) -> None:
        self._stops: dict[TopicPartition, _Stop] = {}

    def enter(self, waiter: Waiter, first: bool) -> None:
        """Into line; in front for one that was woken for nothing."""
        for partition in waiter.partitions:
            stop = self._stops.get(partition.at)
            if stop is None or stop.partition is not partition:
                stop = self._stops[partition.at] = _Stop(partition)
            line = stop.lines.setdefault(waiter.group, deque())
            if first:
                line.appendleft(waiter)
            else:
                line.append(waiter)
            stop.watch()

    def leave(self, waiter: Waiter) -> None:
        for partition in waiter.partitions:
            stop = self._stops.get(partition.at)
            if stop is not None:
                stop.leave(waiter)
                if not stop.lines:
                    stop.unwatch()
                    del self._stops[partition.at]

    def has_line(self, group: str, at: TopicPartition) -> bool:
        """Whether somebody of the group is in line for news of the partition."""
        stop = self._stops.get(at)
        return stop is not None and group in stop.lines

    def wake_one(self, group: str, at: TopicPartition) -> None:
        """The first in the group's line that is not awake yet."""
        stop = self._stops.get(at)
        if stop is not None:
            stop.wake_one(group)

    def wake_all(self) -> None:
        for stop in list(self._stops.values()):
            for line in list(stop.lines.values()):
                for waiter in list(line):
                    waiter.wake()
