"""The least that a share consumer takes for a broker: the same batch over and over, and every answer is right.

`python -m bench.bare_share`. Nothing is kept: what a client takes from it is the client's own limit.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import uvloop

from bench.bare_kafka import PARTITIONS, TOPIC_ID, BareBroker, serve
from goqueue.format.records import NewRecord, build
from goqueue.wire.messages import find_coordinator, share_acknowledge, share_fetch, share_group_heartbeat

RECORDS = 5_000
BATCH = build([NewRecord(None, b"x" * 100, (), 1) for _ in range(RECORDS)])
NUMBERS = list(range(PARTITIONS))


class BareShare(BareBroker):
    def __init__(self, port: int) -> None:
        answers = {10: self._coordinator, 76: self._beaten, 78: self._fetched, 79: self._acknowledged}
        super().__init__(port, answers)
        self._ends: Counter[int] = Counter()
        self._turn = 0

    def _coordinator(self, request: Any) -> find_coordinator.FindCoordinatorResponse:
        found = [find_coordinator.Coordinator(key, 0, "127.0.0.1", self._port) for key in request.coordinator_keys]
        return find_coordinator.FindCoordinatorResponse(
            node_id=0, host="127.0.0.1", port=self._port, coordinators=found
        )

    def _beaten(self, request: Any) -> share_group_heartbeat.ShareGroupHeartbeatResponse:
        assigned = [share_group_heartbeat.TopicPartitions(TOPIC_ID, NUMBERS)]
        return share_group_heartbeat.ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=max(request.member_epoch, -1) + (request.member_epoch == 0),
            heartbeat_interval_ms=3_000,
            assignment=share_group_heartbeat.Assignment(assigned) if request.member_epoch == 0 else None,
        )

    def _fetched(self, request: Any) -> share_fetch.ShareFetchResponse:
        """A batch of another partition each time."""
        parts = {part.partition_index: b"" for topic in request.topics for part in topic.partitions}
        self._turn = (self._turn + 1) % PARTITIONS
        first = self._ends[self._turn]
        self._ends[self._turn] = first + RECORDS
        acquired = [share_fetch.AcquiredRecords(first, first + RECORDS - 1, 1)]
        batch = struct.pack(">q", first) + memoryview(BATCH)[8:]
        data = [share_fetch.PartitionData(partition_index=number) for number in parts if number != self._turn]
        data.append(share_fetch.PartitionData(partition_index=self._turn, records=batch, acquired_records=acquired))
        return share_fetch.ShareFetchResponse(
            acquisition_lock_timeout_ms=30_000, responses=[share_fetch.ShareFetchableTopicResponse(TOPIC_ID, data)]
        )

    def _acknowledged(self, request: Any) -> share_acknowledge.ShareAcknowledgeResponse:
        parts = [
            share_acknowledge.PartitionData(partition_index=part.partition_index)
            for topic in request.topics
            for part in topic.partitions
        ]
        topics = [share_acknowledge.ShareAcknowledgeTopicResponse(TOPIC_ID, parts)] if parts else []
        return share_acknowledge.ShareAcknowledgeResponse(acquisition_lock_timeout_ms=30_000, responses=topics)


if __name__ == "__main__":
    uvloop.run(serve(BareShare))
