"""Routes of the cluster: who is there, who leads what, what is wrong."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.cluster import ClusterHealth, ClusterMetadata, ClusterState, NodeListOut, ShardListOut
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Query
from goqueue.service.cluster_view import ClusterView
from goqueue.service.front import Front

_TOPIC = Param("topic", "Only this topic.")


class ClusterRoutes:
    def __init__(self, cluster: Front[ClusterView]) -> None:
        self._cluster = cluster

    def operations(self) -> list[RestOperation]:
        tag, base = "cluster", "/cluster"
        return [
            RestOperation("GET", f"{base}/state", self.state, "Nodes and shards", tag, ClusterState),
            RestOperation("GET", f"{base}/health", self.health, "What is wrong", tag, ClusterHealth),
            RestOperation(
                "GET", f"{base}/metadata", self.metadata, "Where partitions are", tag, ClusterMetadata, params=(_TOPIC,)
            ),
            RestOperation("GET", f"{base}/nodes", self.nodes, "Nodes", tag, NodeListOut),
            RestOperation("GET", f"{base}/shards", self.shards, "Who leads and who follows", tag, ShardListOut),
        ]

    async def state(self, request: Request) -> Response:
        Query(request)
        return json(self._cluster.by(caller_of(request)).state())

    async def health(self, request: Request) -> Response:
        Query(request)
        found = self._cluster.by(caller_of(request)).health()
        return json(found, 503 if found.status == "unavailable" else 200)

    async def metadata(self, request: Request) -> Response:
        topic = Query(request, "topic").text("topic", "") or None
        return json(self._cluster.by(caller_of(request)).metadata(topic))

    async def nodes(self, request: Request) -> Response:
        Query(request)
        return json(NodeListOut(self._cluster.by(caller_of(request)).nodes()))

    async def shards(self, request: Request) -> Response:
        Query(request)
        return json(ShardListOut(self._cluster.by(caller_of(request)).shards()))
