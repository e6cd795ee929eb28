"""Who may do what to which thing: the words of Kafka's access control, and two more for queues and schemas."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from goqueue.base.commands import Caller


class AclOperation(enum.Enum):
    """Kafka's operations."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    IDEMPOTENT_WRITE = "idempotent_write"


class ResourceKind(enum.Enum):
    """Kafka's resources; `QUEUE` (leases, dead letters, redrives of a topic) and `SUBJECT` (schemas) are ours."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional_id"
    CLUSTER = "cluster"
    QUEUE = "queue"
    SUBJECT = "subject"


class AclResource(msgspec.Struct, frozen=True):
    """One thing, by its kind and name; the name `*` stands for all of a kind."""

    kind: ResourceKind
    name: str = "*"


CLUSTER: Final = AclResource(ResourceKind.CLUSTER, "kafka-cluster")

# Raises if the caller may not.
Admit: TypeAlias = Callable[[Caller, AclOperation, AclResource], None]
