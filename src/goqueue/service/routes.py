"""Where every verb is carried out in a cluster: one table for all services that doors are handed.

`HERE` is what every node can do by itself: it has the image of the metadata, or the question is about the node. `TOLD`
is what only doors use whose clients are told who leads (Kafka's): they ask the right node. Others go to the node that
keeps an id, to the one that leads a partition, to the one that leads the first shard, to all and are put together, or
are split by hand (`SPLIT`; `service/routing.py` says by whom).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from goqueue.base.commands import FetchPartition, PublishBatch
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import ROUTED_S
from goqueue.core.groups.replies import GroupListing
from goqueue.core.txn.records import TxnState
from goqueue.core.txn.staged import kept_with
from goqueue.service.acls import Acls
from goqueue.service.audit_trail import AuditTrail
from goqueue.service.backups import Backups
from goqueue.service.browse import Browsing
from goqueue.service.cluster_view import ClusterView
from goqueue.service.consume import Consuming
from goqueue.service.credentials import Credentials
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.dead_letters import Redrives
from goqueue.service.departure import Departure
from goqueue.service.fetch import Fetching
from goqueue.service.groups import Groups
from goqueue.service.health import Health
from goqueue.service.history import NodeHistory
from goqueue.service.leasing import Leasing
from goqueue.service.metrics_page import MetricsPage
from goqueue.service.node_config import NodeConfig
from goqueue.service.producers import ProducerIds
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.queue_stats import LaneNumbers, QueueStats, Reliability
from goqueue.service.quotas import Quotas
from goqueue.service.reassignment import Reassignments
from goqueue.service.reset import ResetOffsets
from goqueue.service.scheduling import DelayStats, Scheduling, outer_ends, summed_counts
from goqueue.service.schemas import Schemas
from goqueue.service.shard_sizes import ShardSizes
from goqueue.service.share_offsets import ShareOffsets
from goqueue.service.sharing import Sharing
from goqueue.service.staged import StagedVerbs
from goqueue.service.storage import Storage
from goqueue.service.tenants import Tenants
from goqueue.service.topics import Topics
from goqueue.service.traces import Traces
from goqueue.service.transactions import TransactionVerbs
from goqueue.service.txn_publish import TransactionalPublish


class Here(msgspec.Struct, frozen=True):
    """At the node that was asked. With `is_told` because its clients are told whom to ask."""

    is_told: bool = False


class Split(msgspec.Struct, frozen=True):
    """By a class of its own."""


class ById(msgspec.Struct, frozen=True):
    """At the node that keeps the id which the arguments name. With `repeatable` it may be asked twice."""

    id_of: Callable[..., str]
    repeatable: bool = True
    within_s: Callable[..., float] = lambda *_, **__: ROUTED_S


class AtPartition(msgspec.Struct, frozen=True):
    """At the node that leads the partition which the arguments name. With `repeatable` it may be asked twice."""

    at: Callable[..., TopicPartition]
    repeatable: bool = True
    within_s: Callable[..., float] = lambda *_, **__: ROUTED_S


class AtFirstShard(msgspec.Struct, frozen=True):
    """At the node that leads shard 0, which keeps the schemas; this node knows of it when it is answered."""


class AtAll(msgspec.Struct, frozen=True):
    """At all nodes that lead something; their answers are put together."""

    merge: Callable[[list[Any]], Any]


Route: TypeAlias = Here | Split | ById | AtPartition | AtFirstShard | AtAll

HERE: Final = Here()
TOLD: Final = Here(is_told=True)
SPLIT: Final = Split()
SCHEMA_CHANGE: Final = AtFirstShard()


# --- how arguments name it --------------------------------------------------------------------------------


def first(name: str, *_: object, **__: object) -> str:
    return name


def of_group(request: Any, *_: object) -> str:
    group: str = request.group
    return group


def of_transaction(name: str, *_: object, **__: object) -> str:
    return kept_with(name)


def _partition(topic: str, number: int, *_: object) -> TopicPartition:
    return TopicPartition(topic, number)


def _of_command(command: PublishBatch | FetchPartition) -> TopicPartition:
    return command.at


def _poll_s(poll: FetchPartition) -> float:
    return poll.wait_ms_max / 1000 + ROUTED_S


# --- how answers are put together -------------------------------------------------------------------------


def _chained(parts: list[list[Any]]) -> list[Any]:
    return [one for part in parts for one in part]


def _united(parts: list[set[Any]]) -> set[Any]:
    return set().union(*parts)


def _names(parts: list[list[str]]) -> list[str]:
    return sorted(_chained(parts))


def _groups(parts: list[list[GroupListing]]) -> list[GroupListing]:
    return sorted(_chained(parts), key=lambda one: one.group)


def _transactions(parts: list[list[TxnState]]) -> list[TxnState]:
    return sorted(_chained(parts), key=lambda one: one.transactional_id)


def _lanes(parts: list[list[LaneNumbers]]) -> list[LaneNumbers]:
    return sorted(_chained(parts), key=lambda one: (one.group, one.topic, one.partition))


def _reliability(parts: list[list[Reliability]]) -> list[Reliability]:
    found: dict[tuple[str, str], Reliability] = {}
    for one in _chained(parts):
        key = one.group, one.topic
        found[key] = one if key not in found else _both(found[key], one)
    return [found[key] for key in sorted(found)]


def _both(one: Reliability, other: Reliability) -> Reliability:
    words = {*one.dead_letters, *other.dead_letters}
    dead = {word: one.dead_letters.get(word, 0) + other.dead_letters.get(word, 0) for word in words}
    sums = {
        name: getattr(one, name) + getattr(other, name)
        for name in ("acked", "nacked", "rejected", "expired_leases", "ready", "in_flight", "waiting")
    }
    return msgspec.structs.replace(one, dead_letters=dead, **sums)


def _delays(parts: list[DelayStats]) -> DelayStats:
    """Lateness is that of the node where it is worst: what the others had is not kept by message."""

    def highest(values: Sequence[float | None]) -> float | None:
        return max((one for one in values if one is not None), default=None)

    return DelayStats(
        sum(one.pending for one in parts),
        sum(one.near for one in parts),
        sum(one.scheduled for one in parts),
        sum(one.delivered for one in parts),
        sum(one.cancelled for one in parts),
        sum(one.expired for one in parts),
        min((one.next_due_ms for one in parts if one.next_due_ms is not None), default=None),
        highest([one.late_ms_p50 for one in parts]),
        highest([one.late_ms_p99 for one in parts]),
        highest([one.late_ms_max for one in parts]),
    )


# --- the table --------------------------------------------------------------------------------------------


def _all(route: Route, *verbs: str) -> dict[str, Route]:
    return dict.fromkeys(verbs, route)


_BY_NAME: Final = ById(first)
_BY_TRANSACTION: Final = ById(of_transaction, repeatable=False)

ROUTES: Final[Mapping[type, Mapping[str, Route]]] = {
    Topics: {
        **_all(SPLIT, "describe", "list"),
        **_all(
            HERE,
            "require",
            "require_users",
            "find",
            "all",
            "everything",
            "name_of",
            "kafka_may_create",
            "settings_of",
            "require_readable",
            "create",
            "check_new",
            "check_placing",
            "check_config",
            "alter",
            "check_partitions",
            "delete",
        ),
    },
    Publish: {
        **_all(SPLIT, "messages", "settle"),
        "batch": AtPartition(_of_command, repeatable=False),
        **_all(TOLD, "append", "append_any", "is_durable", "wait_durable"),
    },
    DeduplicatedPublish: _all(SPLIT, "messages", "last_sequence"),
    Fetching: {"partition": AtPartition(_of_command, within_s=_poll_s), **_all(TOLD, "fetch", "fetch_now")},
    Browsing: {
        **_all(HERE, "check_partition", "check_readable"),
        **_all(SPLIT, "offsets_from", "high_watermark", "read"),
    },
    Groups: {
        "new_member_id": HERE,
        "lag": SPLIT,
        "describe": _BY_NAME,
        "stats": _BY_NAME,
        **_all(_BY_NAME, "delete", "config", "check_config", "configure"),
        "list": AtAll(_groups),
        "configured": AtAll(_names),
        **_all(
            TOLD,
            "resolve_pattern",
            "join",
            "sync",
            "heartbeat",
            "leave",
            "consumer_heartbeat",
            "share_heartbeat",
            "commit",
            "check_member",
            "offsets",
            "delete_offsets",
            "config_defaults",
        ),
    },
    Consuming: {
        "join": ById(of_group),
        "heartbeat": _BY_NAME,
        "revoke": _BY_NAME,
        "leave": _BY_NAME,
        "poll": SPLIT,
        "commit": ById(of_group),
    },
    ResetOffsets: {"reset": ById(of_group)},
    Leasing: _all(SPLIT, "take", "ack", "nack", "reject", "extend", "counts", "held_of", "skip_all"),
    Sharing: _all(TOLD, "acquire", "acknowledge", "release", "release_now", "check_member", "lock_ms"),
    ShareOffsets: _all(TOLD, "known", "start", "check_empty", "check_reset", "alter", "delete"),
    DeadLetterView: {"home_of": HERE, **_all(SPLIT, "page", "show", "stats", "delete")},
    Redrives: _all(SPLIT, "start", "preview", "tasks", "find", "cancel"),
    QueueStats: {
        "look": AtAll(lambda _: None),
        "reliability": AtAll(_reliability),
        "lanes": AtAll(_lanes),
        **_all(AtAll(_chained), "leases", "peek"),
    },
    Scheduling: {
        "pending": AtAll(sum),
        "show": AtPartition(_partition),
        "cancel": AtPartition(_partition),
        "list": SPLIT,
        "entering": AtAll(_chained),
        "cancel_all": AtAll(sum),
        "stats": AtAll(_delays),
        "due_ends": AtAll(outer_ends),
        "due_counts": AtAll(summed_counts),
    },
    Schemas: {
        **_all(HERE, "table", "text", "document", "stats", "lookup", "test"),
        **_all(
            SCHEMA_CHANGE,
            "register",
            "delete_version",
            "delete_subject",
            "set_settings",
            "delete_settings",
            "set_mode",
            "delete_mode",
        ),
    },
    ProducerIds: {"next_id": HERE},
    TransactionVerbs: {
        **_all(_BY_TRANSACTION, "init", "begin", "add_partitions", "add_offsets", "add_answers", "end", "abort_any"),
        **_all(ById(of_transaction), "describe", "turn", "add_group"),
        "unstable": AtAll(_united),
        **_all(SPLIT, "beat", "name_of"),
        **_all(AtAll(_transactions), "all", "open"),
        **_all(HERE, "runs_for_ms", "tally"),
        **_all(TOLD, "may_write", "writes_to", "mark"),
    },
    TransactionalPublish: {"publish": ById(lambda command: kept_with(command.transactional_id), repeatable=False)},
    StagedVerbs: {
        **_all(ById(first, repeatable=False), "stage", "commit", "abort"),
        "owner": _BY_NAME,
        "owners": SPLIT,
    },
    Backups: {"list": HERE, **_all(SPLIT, "begin", "files", "read", "end")},
    Storage: _all(HERE, "usage", "data_dir", "delete_records"),
    NodeConfig: _all(HERE, "static", "check", "alter", "set_log_levels", "dynamic"),
    Quotas: _all(HERE, "list", "alter"),
    AuditTrail: _all(SPLIT, "page"),
    NodeHistory: _all(HERE, "read"),
    Acls: _all(HERE, "is_on", "list", "explain", "check", "add", "delete"),
    Tenants: _all(HERE, "list", "show", "usage", "own_usage", "create", "delete"),
    Traces: {"stats": HERE, **_all(SPLIT, "newest", "show", "search")},
    Credentials: _all(
        HERE,
        "users",
        "user",
        "add_user",
        "set_password",
        "set_disabled",
        "delete_user",
        "alter_scram",
        "keys",
        "key",
        "last_used_ms",
        "create_key",
        "rotate_key",
        "revoke_key",
    ),
    ClusterView: _all(HERE, "state", "health", "metadata", "nodes", "shards"),
    ShardSizes: {"led": AtAll(_chained)},
    Departure: _all(HERE, "leave", "stay"),
    Reassignments: {
        **_all(HERE, "plan", "begin", "moves", "cancel", "fill", "remove", "restart_safe", "led_by", "check_change"),
        **_all(HERE, "throttle", "throttled", "elect"),
    },
    Health: _all(HERE, "checks", "stopping", "stats"),
    MetricsPage: _all(HERE, "text"),
}
