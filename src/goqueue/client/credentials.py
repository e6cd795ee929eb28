"""Requests about users and API keys."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

import msgspec

from goqueue.api.credentials import (
    KeyIn,
    KeyListOut,
    KeyOut,
    KeyRotationIn,
    NewKeyOut,
    UserChangeIn,
    UserIn,
    UserListOut,
    UserOut,
)
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall

T = TypeVar("T")


def users() -> RestCall[list[UserOut]]:
    return RestCall("GET", "/admin/users", lambda status, body: from_json(body, UserListOut).users)


def add_user(name: str, password: str, tenant: str = "") -> RestCall[UserOut]:
    return _sent("POST", "/admin/users", UserIn(name, password, tenant), UserOut)


def change_user(name: str, password: str | None = None, disabled: bool | None = None) -> RestCall[UserOut]:
    return _sent("PATCH", f"/admin/users/{quote(name, safe='')}", UserChangeIn(password, disabled), UserOut)


def delete_user(name: str) -> RestCall[None]:
    return RestCall("DELETE", f"/admin/users/{quote(name, safe='')}", lambda status, body: None)


def keys(owner: str | None = None) -> RestCall[list[KeyOut]]:
    query = {} if owner is None else {"owner": owner}
    return RestCall("GET", "/admin/keys", lambda status, body: from_json(body, KeyListOut).keys, query=query)


def create_key(owner: str, lives_ms: int | None, signs: bool, note: str) -> RestCall[NewKeyOut]:
    return _sent("POST", "/admin/keys", KeyIn(owner, lives_ms, signs, note), NewKeyOut)


def rotate_key(key_id: str, overlap_ms: int) -> RestCall[NewKeyOut]:
    return _sent("POST", f"/admin/keys/{quote(key_id, safe='')}/rotate", KeyRotationIn(overlap_ms), NewKeyOut)


def revoke_key(key_id: str) -> RestCall[None]:
    return RestCall("DELETE", f"/admin/keys/{quote(key_id, safe='')}", lambda status, body: None)


def _sent(method: str, path: str, body: msgspec.Struct, kind: type[T]) -> RestCall[T]:
    return RestCall(method, path, lambda status, answer: from_json(answer, kind), body=msgspec.json.encode(body))
