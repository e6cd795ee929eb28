"""The least that a stock client takes for a broker: answers to its questions, and appends (or discards) what it sends.

`python -m bench.bare_kafka append|discard FILE`. No checks, no offsets per batch, no groups: a floor to compare with.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import cast

import uvloop

from goqueue.format.batch import Buffer
from goqueue.wire.api import APIS, decode_header
from goqueue.wire.framer import Framer
from goqueue.wire.frames import encode_response_frame
from goqueue.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from goqueue.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from goqueue.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

PARTITIONS = 3


class Bare(asyncio.Protocol):
    def __init__(self, fd: int, port: int) -> None:
        self._fd = fd
        self._port = port
        self._framer = Framer(100_000_000)
        self._offset = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._transport.writelines(self._answer(frame))

    def _answer(self, frame: memoryview) -> list[Buffer]:
        header, at = decode_header(frame)
        api = APIS[header.api_key]
        if api.key == 18:
            keys = [ApiVersion(api_key=key, min_version=0, max_version=APIS[key].max_version) for key in (0, 3, 18)]
            version = min(header.api_version, api.max_version)
            return encode_response_frame(api, version, header.correlation_id, ApiVersionsResponse(api_keys=keys))
        request = api.decode_request(header.api_version, frame, at)
        response = self._produced(request) if api.key == 0 else self._metadata(request)
        return encode_response_frame(api, header.api_version, header.correlation_id, response)

    def _produced(self, request: ProduceRequest) -> ProduceResponse:
        topics: list[TopicProduceResponse] = []
        for topic in request.topic_data:
            parts: list[PartitionProduceResponse] = []
            for data in topic.partition_data:
                if self._fd >= 0 and data.records is not None:
                    os.write(self._fd, data.records)
                parts.append(PartitionProduceResponse(index=data.index, base_offset=self._offset))
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts))
        return ProduceResponse(responses=topics)

    def _metadata(self, request: object) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(partition_index=number, leader_id=0, replica_nodes=[0], isr_nodes=[0])
            for number in range(PARTITIONS)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self._port)],
            cluster_id="bare",
            controller_id=0,
            topics=[MetadataResponseTopic(name="bench", topic_id=b"b" * 16, partitions=partitions)],
        )


async def serve(fd: int) -> None:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    server = await asyncio.get_running_loop().create_server(lambda: Bare(fd, port), sock=sock)
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    kind, path = sys.argv[1:]
    uvloop.run(serve(os.open(path, os.O_WRONLY | os.O_CREAT) if kind == "append" else -1))
