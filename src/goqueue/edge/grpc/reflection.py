"""Server reflection: what tools like grpcurl ask to know the methods. Two names, the same messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Final

from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import aio

from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod, Send

SERVICES: Final = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


class ReflectionMethods:
    def __init__(self, services: Collection[str]) -> None:
        self._servicer = aio.ReflectionServicer([*services, *SERVICES])

    def methods(self) -> list[GrpcMethod]:
        request = reflection_pb2.ServerReflectionRequest
        return [GrpcMethod(f"{name}/ServerReflectionInfo", request, self.answer, "both") for name in SERVICES]

    async def answer(self, requests: AsyncIterator[object], call: GrpcCall, send: Send) -> None:
        async for answer in self._servicer.ServerReflectionInfo(requests, None):
            await send(answer)
