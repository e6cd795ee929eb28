"""What looks at the node as a whole ask of access control: the part of the table that names no topic and no group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from goqueue.base.access import CLUSTER, AclOperation
from goqueue.service.asking import Attribute, Verbs, always, anybody
from goqueue.service.audit_trail import AuditTrail
from goqueue.service.backups import Backups
from goqueue.service.cluster_view import ClusterView
from goqueue.service.health import Health
from goqueue.service.history import NodeHistory
from goqueue.service.metrics_page import MetricsPage
from goqueue.service.shard_sizes import ShardSizes
from goqueue.service.traces import Traces

_SEE: Final = always(AclOperation.DESCRIBE, CLUSTER)

LOOKS: Final[Mapping[type, Verbs]] = {
    ClusterView: dict.fromkeys(("state", "health", "metadata", "nodes", "shards"), _SEE),
    ShardSizes: {"led": _SEE},
    Traces: dict.fromkeys(("newest", "show", "search", "stats"), _SEE),
    Health: {"checks": anybody, "stopping": Attribute(), "stats": _SEE},
    MetricsPage: {"text": _SEE},
    NodeHistory: {"read": _SEE},
    # A backup has everything that the node has: who may take one may also change who may do what.
    Backups: dict.fromkeys(("begin", "list", "files", "read", "end"), always(AclOperation.ALTER, CLUSTER)),
    AuditTrail: {"page": _SEE},
}
