"""Requests about the rules of access control. Perform a call with a client's `perform`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.api.acls import AclDeletedOut, AclExplainOut, AclListOut, AclsIn
from goqueue.base.access import AclRule
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall

__all__ = ["add_acls", "delete_acls", "explain_acl", "list_acls"]

_PATH = "/admin/acls"


def list_acls(chosen: Mapping[str, str]) -> RestCall[AclListOut]:
    """Rules by `principal`, `kind`, `name` and the like."""
    return RestCall("GET", _PATH, lambda status, body: from_json(body, AclListOut), chosen)


def add_acls(rules: Sequence[AclRule]) -> RestCall[AclListOut]:
    body = msgspec.json.encode(AclsIn(list(rules)))
    return RestCall("POST", _PATH, lambda status, body: from_json(body, AclListOut), body=body)


def delete_acls(chosen: Mapping[str, str]) -> RestCall[AclDeletedOut]:
    return RestCall("DELETE", _PATH, lambda status, body: from_json(body, AclDeletedOut), chosen)


def explain_acl(user: str, operation: str, resource: str, host: str = "") -> RestCall[AclExplainOut]:
    """What is decided for a user, and by which rule."""
    query = {"user": user, "operation": operation, "resource": resource, "host": host}
    return RestCall("GET", f"{_PATH}/explain", lambda status, body: from_json(body, AclExplainOut), query)
