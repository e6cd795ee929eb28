"""Who may do what: the settings of access control."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.base.limits import MIB

Doc = msgspec.Meta


class SecuritySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    authorization: Annotated[
        Literal["off", "acl"],
        Doc(
            description="`acl` asks the rules of access control for everything that a caller does; `off` asks nothing."
        ),
    ] = "off"
    super_users: Annotated[
        str, Doc(description="Users that may do everything, whatever the rules say; names with commas between them.")
    ] = ""

    audit_log: Annotated[
        str,
        Doc(
            description="File that gets a line for each refusal, each change and each look of an administrator at "
            "messages; empty means none."
        ),
    ] = ""
    audit_log_bytes: Annotated[
        int, Doc(ge=4096, description="Size at which that file is moved aside and a new one begins; five are kept.")
    ] = 64 * MIB

    @property
    def super_user_names(self) -> frozenset[str]:
        return frozenset(name for part in self.super_users.split(",") if (name := part.strip().removeprefix("User:")))
