"""How far a query is, told to a consumer group, so that its lag shows where all groups' lag does. Never read back."""

from __future__ import annotations

import logging
from functools import partial
from itertools import groupby

from goqueue.pipeline.link.cluster import Cluster
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.leaders import GROUP
from goqueue.pipeline.link.refusals import refusal
from goqueue.pipeline.source.offsets import Positions, QueryMark
from goqueue.wire.messages import offset_commit
from goqueue.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

log = logging.getLogger("goqueue.pipeline")


class GroupProgress:
    """Commits marks as offsets of a group without members. A query never fails by it: it is a display."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._told: Positions | None = None

    def tell(self, mark: QueryMark) -> None:
        """The query has done everything before the mark."""
        if mark.to == self._told:
            return
        try:
            keeper = partial(self._cluster.leaders.keeper, GROUP, self._group)
            self._cluster.ask(offset_commit.API, request_of(self._group, mark), self._check, keeper)
        except PipelineError as error:
            log.warning("The group %s cannot show how far the query is: %s", self._group, error)
        self._told = dict(mark.to)

    def _check(self, answer: offset_commit.OffsetCommitResponse) -> None:
        codes = [one.error_code for topic in answer.topics for one in topic.partitions if one.error_code]
        if codes:
            raise refusal(codes[0], f"group {self._group}")


def request_of(group: str, mark: QueryMark) -> OffsetCommitRequest:
    """From nobody in particular, as for a group whose partitions its consumers choose themselves."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            bytes.fromhex(mark.ids.get(topic, "00" * 16)),
            [OffsetCommitRequestPartition(place.partition, mark.to[place]) for place in places],
        )
        for topic, places in groupby(sorted(mark.to), key=lambda place: place.topic)
    ]
    return OffsetCommitRequest(group, topics=topics)
