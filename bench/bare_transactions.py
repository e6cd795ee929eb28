"""The least that a transactional client takes for a broker: yes to everything, at once, and its batches appended.

`python -m bench.bare_transactions FILE`. No coordinator, no markers, no checks: what is left is the client's own time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import uvloop

from bench.bare_kafka import Bare
from goqueue.format.batch import Buffer
from goqueue.wire.api import APIS, decode_header
from goqueue.wire.frames import encode_response_frame
from goqueue.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from goqueue.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from goqueue.wire.messages.end_txn import EndTxnResponse
from goqueue.wire.messages.find_coordinator import FindCoordinatorResponse
from goqueue.wire.messages.init_producer_id import InitProducerIdResponse

# Produce, metadata, find coordinator, versions, init producer id, add partitions, end; with the newest version of each.
_VERSIONS = {0: 9, 3: 9, 10: 2, 18: 3, 22: 4, 24: 3, 26: 3}


class BareTransactions(Bare):
    def _answer(self, frame: memoryview) -> list[Buffer]:
        header, at = decode_header(frame)
        api = APIS[header.api_key]
        if api.key == 18:
            keys = [ApiVersion(api_key=key, min_version=0, max_version=most) for key, most in _VERSIONS.items()]
            version = min(header.api_version, api.max_version)
            return encode_response_frame(api, version, header.correlation_id, ApiVersionsResponse(api_keys=keys))
        if api.key in (0, 3):
            return super()._answer(frame)
        response: object = EndTxnResponse()
        if api.key == 10:
            response = FindCoordinatorResponse(node_id=0, host="127.0.0.1", port=self._port)
        elif api.key == 22:
            response = InitProducerIdResponse(producer_id=1, producer_epoch=0)
        elif api.key == 24:
            response = _added(api.decode_request(header.api_version, frame, at))
        return encode_response_frame(api, header.api_version, header.correlation_id, response)


def _added(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[AddPartitionsToTxnPartitionResult(one, 0) for one in topic.partitions],
            )
            for topic in request.v3_and_below_topics
        ]
    )


async def serve(fd: int) -> None:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    server = await asyncio.get_running_loop().create_server(lambda: BareTransactions(fd, port), sock=sock)
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)))
