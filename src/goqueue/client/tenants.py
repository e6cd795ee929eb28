"""Requests about tenants."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from goqueue.api.tenants import TenantIn, TenantListOut, TenantOut, UsageOut
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall


def tenants() -> RestCall[list[TenantOut]]:
    return RestCall("GET", "/admin/tenants", lambda status, body: from_json(body, TenantListOut).tenants)


def tenant(name: str) -> RestCall[TenantOut]:
    return RestCall("GET", _path(name), lambda status, body: from_json(body, TenantOut))


def usage() -> RestCall[UsageOut]:
    """Of the tenant that the credentials belong to."""
    return RestCall("GET", "/usage", lambda status, body: from_json(body, UsageOut))


def create_tenant(name: str) -> RestCall[TenantOut]:
    body = msgspec.json.encode(TenantIn(name))
    return RestCall("POST", "/admin/tenants", lambda status, answer: from_json(answer, TenantOut), body=body)


def delete_tenant(name: str) -> RestCall[None]:
    return RestCall("DELETE", _path(name), lambda status, body: None)


def _path(name: str) -> str:
    return f"/admin/tenants/{quote(name, safe='')}"
