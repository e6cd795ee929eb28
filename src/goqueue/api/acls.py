"""The JSON of access control's rules."""

from __future__ import annotations

import msgspec

from goqueue.base.access import AclRule


class AclsIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules to add. `principal` is `User:NAME` or `User:*`; the name `*` means every name."""

    rules: list[AclRule]


class AclListOut(msgspec.Struct, frozen=True):
    """`enforced` tells whether the node asks the rules at all (`security.authorization`)."""

    rules: list[AclRule]
    enforced: bool


class AclDeletedOut(msgspec.Struct, frozen=True):
    rules: list[AclRule]


class AclExplainOut(msgspec.Struct, frozen=True):
    """What is decided, why, and the rule that decides, if one does."""

    allowed: bool
    reason: str
    rule: AclRule | None
    enforced: bool
