"""A reader that the leader sent to a replica goes back to the leader, whatever is wrong with the replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from goqueue.format.batch import stamp
from goqueue.format.records import NewRecord, build
from goqueue.pipeline.link.addresses import Address
from goqueue.pipeline.link.cluster import Cluster
from goqueue.pipeline.link.connection import ReceiveBuffer
from goqueue.pipeline.link.errors import CorruptData, OffsetOutOfLog, PipelineError
from goqueue.pipeline.link.fetching import RangeFetcher, Rules
from goqueue.pipeline.link.nearest import NearestReplicas
from goqueue.pipeline.link.patience import Patience
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.wire.codes import CORRUPT_MESSAGE, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE
from goqueue.wire.messages import fetch, list_offsets, metadata
from goqueue.wire.shape import ClientApi

LEADER: Final = ("leader", 1)
NEAR: Final = ("near", 1)
BATCHES: Final = [
    b"".join(stamp(build([NewRecord(None, b"v", (), 7)] * 3), base, 0)) for base in (0, 3, 6)
]  # three messages each
END: Final = 9
PATIENCE_S: Final = 120.0

Answer = Callable[[int], fetch.PartitionData]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def has(end: int, offset: int) -> fetch.PartitionData:
    """What a node answers that has messages up to there."""
    records = b"".join(BATCHES[offset // 3 : end // 3])
    return fetch.PartitionData(high_watermark=end, last_stable_offset=end, log_start_offset=0, records=records)


class Line:
    """A connection to one of the two nodes."""

    def __init__(self, cluster: TwoNodes, node: Address) -> None:
        self._cluster, self._node = cluster, node
        self._request: fetch.FetchRequest | None = None

    @property
    def is_quiet(self) -> bool:
        return self._request is None

    def send(self, api: ClientApi, request: fetch.FetchRequest) -> None:
        assert self._request is None
        self._request = request

    def receive(self, room: ReceiveBuffer) -> fetch.FetchResponse:
        request, self._request = self._request, None
        assert request is not None
        (topic,) = request.topics
        (part,) = topic.partitions
        found = self._cluster.answer(self._node, part.fetch_offset, request.rack_id)
        return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse("t", topic.topic_id, [found])])

    def close(self) -> None:
        pass


class TwoNodes(Cluster):
    """The leader has everything, and sends readers with a rack to the replica near them. An empty answer takes half a
    second."""

    def __init__(self, near: Answer, leader: Answer = lambda offset: has(END, offset)) -> None:
        super().__init__("leader:1#rack=a", PATIENCE_S)
        self.clock = Clock()
        self.nearest = NearestReplicas("a", self.clock)
        self.asked: list[Address] = []
        self.bounds_asked = 0
        self._near, self._leader = near, leader
        self.untrusted: Address | None = None

    def patience(self, seconds_max: float = PATIENCE_S) -> Patience:
        return Patience("leader:1", min(seconds_max, PATIENCE_S), self.clock)

    def connect(self, at: Address | None = None) -> Any:
        assert at is not None
        if at == self.untrusted:
            raise PipelineError("not trusted")
        return Line(self, at)

    def answer(self, node: Address, offset: int, rack: str) -> fetch.PartitionData:
        self.asked.append(node)
        if node == LEADER and rack:
            return fetch.PartitionData(preferred_read_replica=1)
        found = (self._near if node == NEAR else self._leader)(offset)
        self.clock.now += 0 if found.records else 0.5
        return found

    def _ask(self, api: ClientApi, request: Any, at: Address | None = None) -> Any:
        if api is list_offsets.API:
            self.bounds_asked += 1
            (part,) = request.topics[0].partitions
            parts = [list_offsets.ListOffsetsPartitionResponse(0, offset={-2: 0, -1: END}[part.timestamp])]
            return list_offsets.ListOffsetsResponse(topics=[list_offsets.ListOffsetsTopicResponse("t", parts)])
        brokers = [metadata.MetadataResponseBroker(number, *node) for number, node in enumerate((LEADER, NEAR))]
        partitions = [metadata.MetadataResponsePartition(partition_index=number, leader_id=0) for number in (0, 1)]
        return metadata.MetadataResponse(
            brokers=brokers, topics=[metadata.MetadataResponseTopic(name="t", partitions=partitions)]
        )


def read(cluster: TwoNodes, *ranges: OffsetRange) -> int:
    """How many messages came."""
    wanted = ranges or (OffsetRange("t", 0, 0, END),)
    return sum(spot.header.record_count for one in RangeFetcher(cluster, wanted, Rules()) for spot in one.spots)


def test_a_replica_that_falls_behind_is_left_after_seconds() -> None:
    cluster = TwoNodes(near=lambda offset: has(3, offset))
    assert read(cluster) == END
    assert cluster.clock.now - 100.0 <= 6 and cluster.asked[-1] == LEADER


def test_the_leader_has_all_patience_when_a_replica_was_left() -> None:
    """Also if it has nothing to show yet."""
    first = iter([0, 0])

    def near(offset: int) -> fetch.PartitionData:
        cluster.clock.now += PATIENCE_S
        raise TimeoutError("timed out")

    cluster = TwoNodes(near, lambda offset: has(next(first, END), offset))
    cluster.nearest.send(Place("t", 0), None)  # the leader answers itself at first
    cluster.clock.now += 29.9
    assert read(cluster) == END
    assert NEAR in cluster.asked


def test_a_reader_that_is_sent_back_and_forth_loses_patience_in_the_end() -> None:
    cluster = TwoNodes(near=lambda offset: has(3, offset), leader=lambda offset: has(3, offset))
    with pytest.raises(OffsetOutOfLog, match="can be read up to 3 only"):
        read(cluster)
    assert cluster.clock.now - 100.0 < 2 * PATIENCE_S
    assert cluster.asked.count(LEADER) > PATIENCE_S, "it has most of the time"


DAMAGED = bytes(BATCHES[0][:-1]) + b"?"


@pytest.mark.parametrize(
    "answer",
    [
        fetch.PartitionData(error_code=CORRUPT_MESSAGE),
        fetch.PartitionData(error_code=OFFSET_OUT_OF_RANGE),
        fetch.PartitionData(error_code=NOT_LEADER_OR_FOLLOWER),
        fetch.PartitionData(high_watermark=END, last_stable_offset=END, records=DAMAGED),
    ],
    ids=["corrupt", "out of range", "not a follower", "damaged"],
)
@pytest.mark.parametrize("is_failed_by_another", [False, True])
def test_what_a_replica_says_is_not_the_last_word(answer: fetch.PartitionData, is_failed_by_another: bool) -> None:
    """Nor if another thread has left it just now."""

    def near(offset: int) -> fetch.PartitionData:
        if is_failed_by_another:
            cluster.nearest.fail(NEAR)
        return answer

    cluster = TwoNodes(near)
    assert read(cluster) == END
    assert (cluster.asked.count(NEAR), cluster.bounds_asked) == (1, 0)


def test_what_the_leader_says_is() -> None:
    cluster = TwoNodes(near=lambda offset: has(END, offset))
    cluster.nearest.send(Place("t", 0), None)
    cluster._leader = lambda offset: fetch.PartitionData(error_code=CORRUPT_MESSAGE)
    with pytest.raises(CorruptData):
        read(cluster)


def test_a_replica_whose_certificate_is_not_trusted_is_left() -> None:
    cluster = TwoNodes(near=lambda offset: has(END, offset))
    cluster.untrusted = NEAR
    assert read(cluster) == END
    cluster = TwoNodes(near=lambda offset: has(END, offset))
    cluster.untrusted = NEAR
    cluster.nearest.send(Place("t", 0), None)
    cluster.nearest.send(Place("t", 1), NEAR)  # which is asked while the first answer is worked on
    assert read(cluster, OffsetRange("t", 0, 0, END), OffsetRange("t", 1, 0, END)) == 2 * END
    cluster.untrusted = LEADER
    with pytest.raises(PipelineError, match="not trusted"):
        read(cluster)
