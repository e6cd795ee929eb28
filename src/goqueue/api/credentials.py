"""Users and API keys, as REST shows them. Never a secret, but for the one of a key that was just made."""

from __future__ import annotations

import msgspec


class UserIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a tenant for ever, or, without one, of none."""

    name: str
    password: str
    tenant: str = ""


class UserChangeIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not given stays as it is."""

    password: str | None = None
    disabled: bool | None = None


class UserOut(msgspec.Struct, frozen=True):
    name: str
    mechanisms: list[str]
    disabled: bool
    created_ms: int
    tenant: str = ""


class UserListOut(msgspec.Struct, frozen=True):
    users: list[UserOut]


class KeyIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`lives_ms` from now on, without it for ever. A key that `signs` is for SQS too (AWS Signature v4)."""

    owner: str
    lives_ms: int | None = None
    signs: bool = False
    note: str = ""


class KeyRotationIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the old key counts beside the new one."""

    overlap_ms: int = 3_600_000


class KeyOut(msgspec.Struct, frozen=True):
    id: str
    owner: str
    created_ms: int
    expires_ms: int | None
    last_used_ms: int | None  # give or take ten minutes
    signs: bool
    note: str


class KeyListOut(msgspec.Struct, frozen=True):
    keys: list[KeyOut]


class NewKeyOut(msgspec.Struct, frozen=True):
    """`token` is what clients show as `Authorization: Bearer`: the id, a dot and the secret."""

    key: KeyOut
    secret: str
    token: str
