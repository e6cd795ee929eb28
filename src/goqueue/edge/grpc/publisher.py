"""Messages in: one request, many with one answer, many with an answer each."""

from __future__ import annotations

from collections.abc import AsyncIterator

from goqueue.base.commands import PublishMessages, PublishResult
from goqueue.base.errors import GoQueueError
from goqueue.base.limits import RECORD_FAILURES_MAX
from goqueue.drive.carry_on import carry_on
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod, Send
from goqueue.edge.grpc.errors import brief
from goqueue.edge.grpc.translate import acks_in, columns_in, messages_in, results_out
from goqueue.service.front import Front
from goqueue.service.publish import Publish, first_error
from goqueue.wire import goqueue_pb2 as pb

_SERVICE = "goqueue.v1.Publisher"


class PublisherMethods:
    def __init__(self, publish: Front[Publish]) -> None:
        self._publish = publish

    def methods(self) -> list[GrpcMethod]:
        return [
            GrpcMethod(f"{_SERVICE}/Publish", pb.PublishRequest, self.publish),
            GrpcMethod(f"{_SERVICE}/PublishMany", pb.PublishRequest, self.publish_many, "requests"),
            GrpcMethod(f"{_SERVICE}/PublishStream", pb.PublishRequest, self.publish_stream, "both"),
        ]

    async def publish(self, request: pb.PublishRequest, call: GrpcCall) -> pb.PublishResponse:
        results = await self._results(request, call)
        failed = first_error(results)
        if failed is not None and all(isinstance(result, GoQueueError) for result in results):
            raise failed
        return results_out(results, request.id)

    async def publish_many(self, requests: AsyncIterator[pb.PublishRequest], call: GrpcCall) -> pb.PublishManyResponse:
        """A request that fails as a whole ends the call; what came before it is published."""
        made, count = pb.PublishManyResponse(), 0
        async for request in requests:
            results = await carry_on(self._results(request, call))
            failures = [(place, one) for place, one in enumerate(results) if isinstance(one, GoQueueError)]
            made.published += len(results) - len(failures)
            for place, error in failures[: RECORD_FAILURES_MAX - len(made.failures)]:
                made.failures.add(index=count + place, error=brief(error))
            count += len(results)
        return made

    async def publish_stream(self, requests: AsyncIterator[pb.PublishRequest], call: GrpcCall, send: Send) -> None:
        """One after the other, so that messages are stored in the order in which they were sent."""
        async for request in requests:
            try:
                await send(results_out(await carry_on(self._results(request, call)), request.id))
            except GoQueueError as error:
                await send(pb.PublishResponse(id=request.id, error=brief(error)))

    async def _results(self, request: pb.PublishRequest, call: GrpcCall) -> list[PublishResult]:
        if request.values or request.keys:
            messages = columns_in(request, call.traced())
        else:
            messages = await messages_in(request.messages, call.traced())
        command = PublishMessages(request.topic, messages, acks_in(request.acks), call.caller)
        return await self._publish.by(call.caller).messages(command)
