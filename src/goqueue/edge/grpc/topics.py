"""Topics."""

from __future__ import annotations

from typing import Final

from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.convert import made
from goqueue.service.front import Front, answer_of
from goqueue.service.topics import Topics
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.Topics"


class TopicMethods:
    def __init__(self, topics: Front[Topics]) -> None:
        self._topics = topics

    def methods(self) -> list[GrpcMethod]:
        return [
            GrpcMethod(f"{_SERVICE}/CreateTopic", pb.CreateTopicRequest, self.create),
            GrpcMethod(f"{_SERVICE}/ListTopics", pb.ListTopicsRequest, self.list),
            GrpcMethod(f"{_SERVICE}/GetTopic", pb.GetTopicRequest, self.get),
            GrpcMethod(f"{_SERVICE}/UpdateTopic", pb.UpdateTopicRequest, self.update),
            GrpcMethod(f"{_SERVICE}/DeleteTopic", pb.DeleteTopicRequest, self.delete),
        ]

    async def create(self, request: pb.CreateTopicRequest, call: GrpcCall) -> pb.Topic:
        partitions = request.num_partitions if request.HasField("num_partitions") else None
        return made(pb.Topic, await self._topics.by(call.caller).create(request.name, partitions, dict(request.config)))

    async def list(self, request: pb.ListTopicsRequest, call: GrpcCall) -> pb.ListTopicsResponse:
        found = await answer_of(self._topics.by(call.caller).list())
        return pb.ListTopicsResponse(topics=[made(pb.TopicSummary, one) for one in found])

    async def get(self, request: pb.GetTopicRequest, call: GrpcCall) -> pb.Topic:
        return made(pb.Topic, await answer_of(self._topics.by(call.caller).describe(request.name)))

    async def update(self, request: pb.UpdateTopicRequest, call: GrpcCall) -> pb.Topic:
        partitions = request.num_partitions if request.HasField("num_partitions") else None
        config: dict[str, int | float | str | None] = {**dict.fromkeys(request.unset), **dict(request.config)}
        return made(pb.Topic, await self._topics.by(call.caller).alter(request.name, config, partitions))

    async def delete(self, request: pb.DeleteTopicRequest, call: GrpcCall) -> pb.DeleteTopicResponse:
        await self._topics.by(call.caller).delete(request.name)
        return pb.DeleteTopicResponse()
