"""Requests about quotas. Perform a call with a client's `perform`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from goqueue.api.quotas import QuotaIn, QuotaListOut, QuotaOut
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall

__all__ = ["delete_quota", "list_quotas", "set_quota"]

_PATH = "/admin/quotas"


def list_quotas() -> RestCall[QuotaListOut]:
    return RestCall("GET", _PATH, lambda status, body: from_json(body, QuotaListOut))


def set_quota(
    user: str | None, client_id: str | None, limits: Mapping[str, float | None], tenant: str | None = None
) -> RestCall[QuotaOut]:
    """Limits that are None are taken away; those that are not named stay."""
    body = msgspec.json.encode(QuotaIn(dict(limits), user, client_id, tenant))
    return RestCall("POST", _PATH, lambda status, body: from_json(body, QuotaOut), body=body)


def delete_quota(user: str | None, client_id: str | None, tenant: str | None = None) -> RestCall[None]:
    named = {"user": user, "client_id": client_id, "tenant": tenant}
    query = {kind: name for kind, name in named.items() if name is not None}
    return RestCall("DELETE", _PATH, lambda status, body: None, query)
