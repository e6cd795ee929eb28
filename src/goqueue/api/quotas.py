"""The JSON of quotas."""

from __future__ import annotations

import msgspec


class QuotaIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a user, a client id, or both, or of a tenant; the name `""` means each one that has no limit of its own. A
    limit that is null is taken away."""

    limits: dict[str, float | None]
    user: str | None = None
    client_id: str | None = None
    tenant: str | None = None


class QuotaOut(msgspec.Struct, frozen=True):
    user: str | None
    client_id: str | None
    limits: dict[str, float]
    tenant: str | None = None


class QuotaListOut(msgspec.Struct, frozen=True):
    quotas: list[QuotaOut]
