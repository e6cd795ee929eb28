"""Tenants, as REST shows them."""

from __future__ import annotations

import msgspec


class TenantIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class TenantOut(msgspec.Struct, frozen=True):
    """What it has is the sum over all nodes. `limits` are those that hold for it, by name."""

    name: str
    created_ms: int
    topics: int
    partitions: int
    messages: int
    size_bytes: int
    groups: int
    transactional_ids: int
    subjects: int
    users: int
    limits: dict[str, float]


class UsageOut(msgspec.Struct, frozen=True):
    """The same for those who belong to it, who do not learn its name."""

    topics: int
    partitions: int
    messages: int
    size_bytes: int
    groups: int
    transactional_ids: int
    subjects: int
    limits: dict[str, float]


class TenantListOut(msgspec.Struct, frozen=True):
    tenants: list[TenantOut]
