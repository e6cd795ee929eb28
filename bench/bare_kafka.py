"""The least that a stock client takes for a broker: answers to its questions, and appends (or discards) what it sends.

`python -m bench.bare_kafka append|discard FILE`. No checks, no offsets per batch, no groups: a floor to compare with.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

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
TOPIC, TOPIC_ID = "bench", b"b" * 16
_PRODUCE, _FETCH, _METADATA, _VERSIONS = 0, 1, 3, 18


class BareBroker(asyncio.Protocol):
    """Says that it is the only one, leads one topic, and can do what it has answers for, by the key of the request."""

    def __init__(self, port: int, answers: Mapping[int, Callable[[Any], Any]]) -> None:
        self._port = port
        self._framer = Framer(100_000_000)
        self._answers = {_METADATA: self._metadata, _VERSIONS: self._versions, **answers}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._framer.feed(data):
            self._transport.writelines(self._answer(frame))

    def _answer(self, frame: memoryview) -> list[Buffer]:
        header, at = decode_header(frame)
        api = APIS[header.api_key]
        version = min(header.api_version, api.max_version)
        request = None if api.key == _VERSIONS else api.decode_request(version, frame, at)
        return encode_response_frame(api, version, header.correlation_id, self._answers[api.key](request))

    def _versions(self, _: Any) -> ApiVersionsResponse:
        """Clients tell from Produce and Fetch what a broker is capable of."""
        keys = {_PRODUCE, _FETCH, *self._answers}
        return ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=key, min_version=0, max_version=APIS[key].max_version) for key in sorted(keys)]
        )

    def _metadata(self, _: Any) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(0, number, 0, 0, replica_nodes=[0], isr_nodes=[0]) for number in range(PARTITIONS)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=0, host="127.0.0.1", port=self._port)],
            cluster_id="bare",
            controller_id=0,
            topics=[MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)],
        )


class Bare(BareBroker):
    def __init__(self, fd: int, port: int) -> None:
        super().__init__(port, {_PRODUCE: self._produced})
        self._fd = fd
        self._offset = 0

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


async def serve(make: Callable[[int], BareBroker]) -> None:
    """On a free port, which it prints."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    server = await asyncio.get_running_loop().create_server(lambda: make(port), sock=sock)
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    kind, path = sys.argv[1:]
    chosen = os.open(path, os.O_WRONLY | os.O_CREAT) if kind == "append" else -1
    uvloop.run(serve(lambda port: Bare(chosen, port)))
