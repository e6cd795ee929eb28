"""Record batches as bytes, in and out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from goqueue.base.commands import FetchPartition, PublishBatch
from goqueue.base.errors import GoQueueError, InvalidBatch
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.limits import FETCH_BYTES_MAX, MIB
from goqueue.drive.carry_on import carry_on
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod, Send
from goqueue.edge.grpc.errors import brief
from goqueue.edge.grpc.translate import acks_in, isolation_in, number_in
from goqueue.service.fetch import Fetching
from goqueue.service.front import Front
from goqueue.service.health import Health
from goqueue.service.publish import Publish
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.Batches"
_BYTES_DEFAULT: Final = 1 * MIB
_STREAM_WAIT_MS: Final = 15_000


class BatchMethods:
    def __init__(self, publish: Front[Publish], fetching: Front[Fetching], health: Front[Health]) -> None:
        self._publish = publish
        self._fetching = fetching
        self._health = health

    def methods(self) -> list[GrpcMethod]:
        publish, fetch = pb.PublishBatchRequest, pb.FetchBatchesRequest
        return [
            GrpcMethod(f"{_SERVICE}/PublishBatch", publish, self.publish),
            GrpcMethod(f"{_SERVICE}/PublishBatchStream", publish, self.publish_stream, "both"),
            GrpcMethod(f"{_SERVICE}/FetchBatches", fetch, self.fetch, is_wait=True),
            GrpcMethod(f"{_SERVICE}/FetchBatchStream", fetch, self.fetch_stream, "answers", is_wait=True),
        ]

    # --- in --------------------------------------------------------------------------------------------------

    async def publish(self, request: pb.PublishBatchRequest, call: GrpcCall) -> pb.PublishBatchResponse:
        at = TopicPartition(request.topic, number_in(request.partition, "partition", 0, 2**31 - 1))
        if not request.batch:
            raise InvalidBatch("Send one record batch.", field="batch")
        command = PublishBatch(at, request.batch, acks_in(request.acks), call.caller)
        appended = await self._publish.by(call.caller).batch(command)
        return pb.PublishBatchResponse(
            id=request.id,
            base_offset=appended.base_offset,
            last_offset=appended.last_offset,
            append_time_ms=appended.append_time_ms,
        )

    async def publish_stream(self, requests: AsyncIterator[pb.PublishBatchRequest], call: GrpcCall, send: Send) -> None:
        async for request in requests:
            try:
                await send(await carry_on(self.publish(request, call)))
            except GoQueueError as error:
                await send(pb.PublishBatchResponse(id=request.id, error=brief(error)))

    # --- out -------------------------------------------------------------------------------------------------

    async def fetch(self, request: pb.FetchBatchesRequest, call: GrpcCall) -> pb.FetchBatchesResponse:
        return await self._fetch(request, call, request.offset, call.wait_ms(request.wait_ms))

    async def fetch_stream(self, request: pb.FetchBatchesRequest, call: GrpcCall, send: Send) -> None:
        offset = request.offset
        while not self._health.by(call.caller).stopping:
            found = await self._fetch(request, call, offset, _STREAM_WAIT_MS)
            if found.batches:
                await send(found)
            offset = found.next_offset

    async def _fetch(
        self, request: pb.FetchBatchesRequest, call: GrpcCall, offset: Offset, wait_ms: int
    ) -> pb.FetchBatchesResponse:
        at = TopicPartition(request.topic, number_in(request.partition, "partition", 0, 2**31 - 1))
        bytes_max = number_in(request.bytes_max or _BYTES_DEFAULT, "bytes_max", 1, FETCH_BYTES_MAX)
        number_in(offset, "offset", 0, 2**63 - 1)
        isolation = isolation_in(request.isolation)
        command = FetchPartition(at, offset, bytes_max, wait_ms, isolation, call.caller)
        found = await self._fetching.by(call.caller).partition(command)
        return pb.FetchBatchesResponse(
            batches=found.batches,
            high_watermark=found.high_watermark,
            last_stable_offset=found.last_stable_offset,
            start_offset=found.start_offset,
            aborted=[pb.AbortedTransaction(producer_id=one, first_offset=first) for one, first in found.aborted],
            next_offset=found.next_offset,
        )
