"""The cluster: who is there, who leads what, what is wrong."""

from __future__ import annotations

from typing import Final

from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.convert import made
from goqueue.service.cluster_view import ClusterView
from goqueue.service.front import Front
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.Cluster"


class ClusterMethods:
    def __init__(self, cluster: Front[ClusterView]) -> None:
        self._cluster = cluster

    def methods(self) -> list[GrpcMethod]:
        return [
            GrpcMethod(f"{_SERVICE}/GetClusterState", pb.GetClusterStateRequest, self.state),
            GrpcMethod(f"{_SERVICE}/GetClusterHealth", pb.GetClusterHealthRequest, self.health),
            GrpcMethod(f"{_SERVICE}/GetClusterMetadata", pb.GetClusterMetadataRequest, self.metadata),
        ]

    async def state(self, request: pb.GetClusterStateRequest, call: GrpcCall) -> pb.ClusterState:
        return made(pb.ClusterState, self._cluster.by(call.caller).state())

    async def health(self, request: pb.GetClusterHealthRequest, call: GrpcCall) -> pb.ClusterHealth:
        return made(pb.ClusterHealth, self._cluster.by(call.caller).health())

    async def metadata(self, request: pb.GetClusterMetadataRequest, call: GrpcCall) -> pb.ClusterMetadata:
        return made(pb.ClusterMetadata, self._cluster.by(call.caller).metadata(request.topic or None))
