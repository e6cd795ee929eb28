"""Pages of a topic, in no group's name."""

from __future__ import annotations

from typing import Final

from goqueue.base.commands import Browse, Isolation
from goqueue.base.errors import InvalidField
from goqueue.base.ids import Offset
from goqueue.base.limits import MESSAGES_PER_READ_MAX, MIB
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.convert import made
from goqueue.edge.grpc.translate import headers_out, isolation_in, number_in
from goqueue.service.browse import Browsing
from goqueue.service.front import Front
from goqueue.wire import goqueue_pb2 as pb

_LIMIT: Final = 100
_BYTES_MAX: Final = 1 * MIB  # clients take 4 MiB at once, unless they are told otherwise


class ReadMethods:
    def __init__(self, browsing: Front[Browsing]) -> None:
        self._browsing = browsing

    def methods(self) -> list[GrpcMethod]:
        return [GrpcMethod("goqueue.v1.Subscriber/Read", pb.ReadRequest, self.read, is_wait=True)]

    async def read(self, request: pb.ReadRequest, call: GrpcCall) -> pb.ReadResponse:
        isolation = isolation_in(request.isolation)
        limit = number_in(request.limit or _LIMIT, "limit", 1, MESSAGES_PER_READ_MAX)
        offsets, wait_ms = await self._begin(request, call, isolation), call.wait_ms(request.wait_ms)
        wanted = Browse(request.topic, offsets, limit, wait_ms, isolation, call.caller, _BYTES_MAX)
        page = await self._browsing.by(call.caller).read(wanted)
        return pb.ReadResponse(
            messages=[made(pb.StoredMessage, one, headers=headers_out(one.headers)) for one in page.messages],
            next_offsets=[
                pb.PartitionOffset(partition=partition, offset=offset)
                for partition, offset in sorted(page.next_offsets.items())
            ],
            skipped=[made(pb.SkippedOffsets, one) for one in page.skipped],
        )

    async def _begin(self, request: pb.ReadRequest, call: GrpcCall, isolation: Isolation) -> dict[int, Offset]:
        browsing, topic = self._browsing.by(call.caller), request.topic
        if request.offsets:
            found = {one.partition: number_in(one.offset, "offsets", 0, 2**63 - 1) for one in request.offsets}
            for partition in found:
                browsing.check_partition(topic, partition)
            return found
        begin = request.begin_ms if request.HasField("begin_ms") else request.begin or "earliest"
        if begin not in ("earliest", "latest") and not request.HasField("begin_ms"):
            raise InvalidField("begin is earliest or latest; or send begin_ms or offsets.", field="begin")
        found = await browsing.offsets_from(topic, begin, isolation)
        if not request.HasField("partition"):
            return found
        browsing.check_partition(topic, request.partition)
        return {request.partition: found[request.partition]}
