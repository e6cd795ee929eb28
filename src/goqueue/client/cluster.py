"""Requests about the cluster."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from goqueue.api.cluster import (
    CancelledOut,
    ClusterHealth,
    ClusterState,
    HandedOver,
    MoveIn,
    MoveListOut,
    MovePlanOut,
    RestartSafety,
    ShardMove,
    ThrottleIn,
)
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall


def cluster_state() -> RestCall[ClusterState]:
    """Nodes and shards, as the node that is asked has them."""
    return RestCall("GET", "/cluster/state", lambda status, body: from_json(body, ClusterState))


def cluster_health() -> RestCall[ClusterHealth]:
    """What is wrong, also if it is so much that not everything can be read and written."""
    return RestCall("GET", "/cluster/health", lambda status, body: from_json(body, ClusterHealth), accepts=(503,))


def move_shards(ask: MoveIn) -> RestCall[MovePlanOut]:
    """Begins what is asked for, or only says what it would be. Not sent twice by itself."""
    body = msgspec.json.encode(ask)
    return RestCall("POST", "/admin/reassignment", lambda status, told: from_json(told, MovePlanOut), body=body)


def to_drain(nodes: Sequence[int], filled: Sequence[int] = ()) -> MoveIn:
    """All of them, or none."""
    return MoveIn(drain=nodes[0] if len(nodes) == 1 else list(nodes), fill=list(filled))


def moves_under_way() -> RestCall[list[ShardMove]]:
    return RestCall("GET", "/admin/reassignment", lambda status, body: from_json(body, MoveListOut).moves)


def move_progress() -> RestCall[MoveListOut]:
    """Moves under way, what they copy in all, and how long that takes."""
    return RestCall("GET", "/admin/reassignment", lambda status, body: from_json(body, MoveListOut))


def throttle_moves(bytes_per_s: int) -> RestCall[None]:
    """What a node sends to new replicas in a second at most; 0 means no limit."""
    body = msgspec.json.encode(ThrottleIn(bytes_per_s))
    return RestCall("PATCH", "/admin/reassignment", lambda status, told: None, body=body)


def cancel_moves(shard: int | None = None) -> RestCall[list[int]]:
    """Of one shard, or of all that move. The shards that turn back."""
    query = {} if shard is None else {"shard": str(shard)}
    read = lambda status, body: from_json(body, CancelledOut).shards  # noqa: E731
    return RestCall("DELETE", "/admin/reassignment", read, query)


def fill_node(node: int) -> RestCall[None]:
    """It may hold shards again."""
    return RestCall("POST", f"/cluster/nodes/{node}/fill", lambda status, body: None)


def remove_node(node: int) -> RestCall[None]:
    """It does not belong to the cluster any more."""
    return RestCall("DELETE", f"/cluster/nodes/{node}", lambda status, body: None)


def hand_over(node: int, timeout_ms: int) -> RestCall[HandedOver]:
    """Asked of the node itself, which waits until the others can do without it."""
    path, query = f"/cluster/nodes/{node}/hand-over", {"timeout": str(timeout_ms)}
    return RestCall(
        "POST", path, lambda status, body: from_json(body, HandedOver), query, wait_seconds=timeout_ms / 1000
    )


def stay_leading(node: int) -> RestCall[None]:
    """A node that handed over what it led may lead again."""
    return RestCall("DELETE", f"/cluster/nodes/{node}/hand-over", lambda status, body: None)


def elect_leader(shard: int, unclean: bool = False) -> RestCall[None]:
    """The replica that is named first leads; or, of a shard that nobody leads, one that may lack something."""
    query = {"unclean": "true"} if unclean else {}
    return RestCall("POST", f"/cluster/shards/{shard}/elect", lambda status, body: None, query)


def restart_safe(node: int) -> RestCall[RestartSafety]:
    return RestCall("GET", f"/cluster/nodes/{node}/restart-safe", lambda status, body: from_json(body, RestartSafety))
