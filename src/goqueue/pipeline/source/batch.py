"""The driver's part of a batch read: which ranges of which partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.options import Options
from goqueue.pipeline.source.ending import ending
from goqueue.pipeline.source.loss import overtaken_of, report, told_of_beyond, told_of_overtaken
from goqueue.pipeline.source.narrowing import Narrow
from goqueue.pipeline.source.starting import starting

if TYPE_CHECKING:
    from goqueue.pipeline.link.cluster import Cluster


def batch_ranges(cluster: Cluster, options: Options, narrow: Narrow | None = None) -> list[OffsetRange]:
    """What a batch reads, as it is at this moment; `narrow` leaves out what filters let nobody see."""
    found = options.what.find(cluster)
    if found.missing:
        raise TopicNotFound(found.missing[0])
    firsts = cluster.earliest(found.places)
    ends = cluster.latest(found.places, options.isolation)
    begin = starting(cluster, ends, options.start or "earliest", options.unmatched)
    end = ending(cluster, ends, options.end or "latest")
    report(told_of_beyond(begin, ends, "start"), options.fail_on_loss)
    report(told_of_beyond(end, ends, "end"), options.fail_on_loss)
    report(told_of_overtaken(overtaken_of(begin, firsts), firsts), options.fail_on_loss)
    ranges = [
        OffsetRange(*place, max(begin[place], firsts[place]), min(end[place], ends[place])) for place in sorted(ends)
    ]
    return narrow.ranges(cluster, ranges) if narrow else ranges
