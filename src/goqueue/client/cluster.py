"""Requests about the cluster."""

from __future__ import annotations

from goqueue.api.cluster import ClusterHealth, ClusterState
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall


def cluster_state() -> RestCall[ClusterState]:
    """Nodes and shards, as the node that is asked has them."""
    return RestCall("GET", "/cluster/state", lambda status, body: from_json(body, ClusterState))


def cluster_health() -> RestCall[ClusterHealth]:
    """What is wrong, also if it is so much that not everything can be read and written."""
    return RestCall("GET", "/cluster/health", lambda status, body: from_json(body, ClusterHealth), accepts=(503,))
