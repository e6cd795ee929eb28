"""How much a client or a tenant may: the words of quotas. The names of limits are Kafka's where it has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from goqueue.base.errors import InvalidField
from goqueue.base.limits import PRINCIPAL_CHARS_MAX

BYTES_IN: Final = "producer_byte_rate"
BYTES_OUT: Final = "consumer_byte_rate"
REQUESTS: Final = "request_rate"
MESSAGES: Final = "message_rate"
RATES: Final = (BYTES_IN, BYTES_OUT, REQUESTS, MESSAGES)  # each so many a second, at each node
TOPICS: Final = "topics"
PARTITIONS: Final = "partitions"
STORAGE: Final = "storage_bytes"
GROUPS: Final = "groups"
DELAYED: Final = "delayed"
IN_FLIGHT: Final = "in_flight"
CONNECTIONS: Final = "connections"
MESSAGE_BYTES: Final = "message_bytes"
# Of a tenant, at any time.
TOTALS: Final = (TOPICS, PARTITIONS, STORAGE, GROUPS, DELAYED, IN_FLIGHT, CONNECTIONS, MESSAGE_BYTES)
HELD_BY_NODES: Final = frozenset({STORAGE, GROUPS, DELAYED, IN_FLIGHT, CONNECTIONS})  # each node has some of it
LIMITS: Final = (*RATES, *TOTALS)
EACH: Final = ""  # as the name of a user or client: everyone that has no limit of its own, each by itself
LIMIT_MAX: Final = 1e15


class QuotaEntity(msgspec.Struct, frozen=True):
    """Whose limits: of a user, of a client id, of a client id of a user, or of all of a tenant together. None leaves
    one out; see `EACH`."""

    user: str | None = None
    client_id: str | None = None
    tenant: str | None = None

    def __str__(self) -> str:
        named = (("user", self.user), ("client-id", self.client_id), ("tenant", self.tenant))
        return ", ".join(f"{kind} {name or '<default>'}" for kind, name in named if name is not None)


class Quota(msgspec.Struct, frozen=True):
    """The limits of one entity."""

    entity: QuotaEntity
    limits: dict[str, float]


def tenant_limits(tenant: str, quotas: Iterable[Quota]) -> dict[str, float]:
    """Those that hold for a tenant: its own, and of the others those of each tenant."""
    known = {one.entity.tenant: one.limits for one in quotas if one.entity.tenant in (tenant, EACH)}
    return {**known.get(EACH, {}), **known.get(tenant, {})}


def check_quota(entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Raises if that is no quota."""
    if (entity.user is None and entity.client_id is None) == (entity.tenant is None):
        raise InvalidField("A quota is of a user, of a client id, of both, or of a tenant.", field="user")
    if any(len(name or "") > PRINCIPAL_CHARS_MAX for name in (entity.user, entity.client_id, entity.tenant)):
        raise InvalidField(f"A name has at most {PRINCIPAL_CHARS_MAX} characters.", field="user")
    for name, value in changes.items():
        if name not in LIMITS:
            raise InvalidField(f"{name[:80]!r} is no limit; there are {', '.join(LIMITS)}.", field="limits")
        if name in TOTALS and entity.tenant is None:
            raise InvalidField(f"{name} is a limit of tenants.", field="limits")
        if name == MESSAGES and entity.client_id is not None:
            raise InvalidField(f"{name} is a limit of users and tenants.", field="limits")
        if value is not None and not 0 < value <= LIMIT_MAX:
            raise InvalidField(f"{name} is a number above 0.", field="limits")
