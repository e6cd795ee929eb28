"""The driver's part of a streaming read: what the next batch is, and which ranges it reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.pipeline.options import Options
from goqueue.pipeline.source.loss import (
    begin_of,
    overtaken_of,
    refuse,
    report,
    told_of_beyond,
    told_of_overtaken,
    told_of_topics,
)
from goqueue.pipeline.source.offsets import Positions, QueryMark
from goqueue.pipeline.source.sharing import backlog_of, is_held, share_out
from goqueue.pipeline.source.starting import starting
from goqueue.pipeline.source.watching import PartitionEnds, Watch

if TYPE_CHECKING:
    from goqueue.pipeline.link.cluster import Cluster
    from goqueue.pipeline.source.group import GroupProgress


class Stream:
    """One query's view of its topics. Lives in the driver as long as the query runs; nothing in it is durable.

    With `failOnDataLoss` a loss is raised as soon as it is seen; without, `ranges` warns of it and the marks count it.
    """

    def __init__(self, cluster: Cluster, options: Options, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._options = options
        self._clock = clock
        self._watch = Watch(cluster, options.what, options.isolation, clock)
        self._group = _group_of(cluster, options)
        self._target: PartitionEnds | None = None
        self._triggered_at = float("-inf")

    def until_now(self) -> None:
        """From here on, the stream ends where the logs end now."""
        self._target = self._watch.fresh()

    def latest(self) -> QueryMark:
        """As far as one could read now."""
        view = self._watch.view()
        return QueryMark(view.ends, view.ids)

    def done(self, mark: QueryMark) -> None:
        """Everything before the mark is processed."""
        if self._group:
            self._group.tell(mark)

    def next_mark(self, start: QueryMark | None, is_limited: bool) -> QueryMark | None:
        """Where the batch after `start` ends; None if there is nothing to do."""
        view = self._target or self._watch.view()
        if start is None:
            return self._first(view, is_limited)
        self.done(start)
        whole = QueryMark(view.ends, view.ids, None, start.lost)
        if whole.to == start.to and whole.ids == start.ids:
            return None
        if self._options.fail_on_loss:
            refuse(told_of_topics(start, whole))
        return self._cut(whole, begin_of(start, whole), is_limited)

    def ranges(self, start: QueryMark | None, end: QueryMark) -> list[OffsetRange]:
        """What a batch reads, also one that is repeated after a crash."""
        report(told_of_topics(start, end), self._options.fail_on_loss)
        begin = begin_of(start, end)
        first = self._firsts(list(backlog_of(begin, end.to)))
        report(told_of_overtaken(overtaken_of(begin, first), first), self._options.fail_on_loss)
        return [OffsetRange(*place, max(begin[place], first[place]), end.to[place]) for place in sorted(first)]

    def _first(self, view: PartitionEnds, is_limited: bool) -> QueryMark:
        """Begins a query: where it begins goes into the mark, as Spark keeps that and nothing else."""
        if view.missing:
            raise TopicNotFound(view.missing[0])
        asked = starting(self._cluster, view.ends, self._options.start or "latest", self._options.unmatched)
        report(told_of_beyond(asked, view.ends, "start"), self._options.fail_on_loss)
        begun = {place: min(offset, view.ends[place]) for place, offset in asked.items()}
        mark = self._cut(QueryMark(view.ends, view.ids, begun), begun, is_limited)
        assert mark is not None, "a first batch is never held back"
        return mark

    def _cut(self, whole: QueryMark, begin: Positions, is_limited: bool) -> QueryMark | None:
        """The whole backlog, or as much of it as the options allow; None while it is held back for more."""
        first = self._firsts(list(backlog_of(begin, whole.to)))
        lost = overtaken_of(begin, first)
        if self._options.fail_on_loss:
            refuse(told_of_overtaken(lost, first))
        readable = {place: max(offset, first.get(place, 0)) for place, offset in begin.items()}
        if is_limited and whole.begun is None and self._is_held(sum(backlog_of(readable, whole.to).values())):
            return None
        self._triggered_at = self._clock()
        most = self._options.offsets_max if is_limited else None
        to = share_out(most, readable, whole.to) if most else whole.to
        return QueryMark(to, whole.ids, whole.begun, _added(whole.lost, lost))

    def _is_held(self, rows: int) -> bool:
        """A run that is to end with what is there does not wait for more."""
        if not self._options.offsets_min or self._target is not None:
            return False
        waited_ms = (self._clock() - self._triggered_at) * 1000
        return is_held(rows, self._options.offsets_min, waited_ms, self._options.trigger_delay_ms_max)

    def _firsts(self, places: Sequence[Place]) -> Positions:
        """Where the logs begin. A topic that was deleted this moment is a loss as well."""
        try:
            return self._cluster.earliest(places)
        except TopicNotFound:
            there = self._watch.fresh().ends
            gone = [place for place in places if place not in there]
            report(
                (f"{place} is gone; it was deleted before it was read." for place in gone), self._options.fail_on_loss
            )
            return self._cluster.earliest([place for place in places if place in there])


def _group_of(cluster: Cluster, options: Options) -> GroupProgress | None:
    from goqueue.pipeline.source.group import GroupProgress  # few queries have a group

    return GroupProgress(cluster, options.group) if options.group else None


def _added(before: Positions, more: Positions) -> Positions:
    return {place: before.get(place, 0) + more.get(place, 0) for place in sorted(before.keys() | more.keys())}
