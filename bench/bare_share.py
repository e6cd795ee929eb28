"""The least that a share consumer takes for a broker: the same batch over and over, and every answer is right.

`python -m bench.bare_share`. Nothing is kept: what a client takes from it is the client's own limit.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from typing import Any, cast

import uvloop

from bench.bare_kafka import PARTITIONS
from goqueue.format.batch import Buffer
from goqueue.format.records import NewRecord, build
from goqueue.wire.api import APIS, decode_header
from goqueue.wire.framer import Framer
from goqueue.wire.frames import encode_response_frame
from goqueue.wire.messages import (
    api_versions,
    find_coordinator,
    metadata,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)

TOPIC, TOPIC_ID = "bench", b"b" * 16
RECORDS = 5_000
BATCH = build([NewRecord(None, b"x" * 100, (), 1) for _ in range(RECORDS)])
NUMBERS = list(range(PARTITIONS))


class BareShare(asyncio.Protocol):
    def __init__(self, port: int) -> None:
        self._port = port
        self._framer = Framer(100_000_000)
        self._ends: Counter[int] = Counter()
        self._turn = 0
        self._answers = {
            3: self._metadata,
            10: self._coordinator,
            18: self._versions,
            76: self._beaten,
            78: self._fetched,
            79: self._acknowledged,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._transport.writelines(self._answer(frame))

    def _answer(self, frame: memoryview) -> list[Buffer]:
        header, at = decode_header(frame)
        api = APIS[header.api_key]
        version = min(header.api_version, api.max_version)
        request = None if api.key == 18 else api.decode_request(version, frame, at)
        return encode_response_frame(api, version, header.correlation_id, self._answers[api.key](request))

    def _versions(self, _: Any) -> api_versions.ApiVersionsResponse:
        keys = [
            api_versions.ApiVersion(api_key=key, min_version=APIS[key].min_version, max_version=APIS[key].max_version)
            for key in (0, 1, *self._answers)  # clients tell from the first two what a broker is capable of
        ]
        return api_versions.ApiVersionsResponse(api_keys=keys)

    def _metadata(self, _: Any) -> metadata.MetadataResponse:
        partitions = [
            metadata.MetadataResponsePartition(0, number, 0, 0, replica_nodes=[0], isr_nodes=[0]) for number in NUMBERS
        ]
        return metadata.MetadataResponse(
            brokers=[metadata.MetadataResponseBroker(0, "127.0.0.1", self._port)],
            cluster_id="bare",
            controller_id=0,
            topics=[metadata.MetadataResponseTopic(0, TOPIC, TOPIC_ID, partitions=partitions)],
        )

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


async def serve() -> None:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    server = await asyncio.get_running_loop().create_server(lambda: BareShare(port), sock=sock)
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
