"""Who somebody is that has shown it, and for how long that holds."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from goqueue.base.clock import SteadyClock
from goqueue.base.commands import ANYONE
from goqueue.base.ids import Millis
from goqueue.base.limits import NAME_CHARS_MAX
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import KeyRecord, UserRecord


def is_principal(name: str) -> bool:
    """Whether a token or a certificate may call somebody so: text, of bounded length, and not nobody."""
    return 0 < len(name) <= NAME_CHARS_MAX and name.isprintable() and name != ANYONE.principal


class Principal(msgspec.Struct, frozen=True):
    """A name, and what it rests on: a user of the table (`user_ms` is when it was made), one of its keys, or, without
    either, a certificate or a token."""

    principal: str
    user_ms: Millis | None = None
    key: str = ""
    expires_ms: Millis | None = None
    tenant: str = ""


class Principals:
    """Asks the node's image of the metadata, so what another node changes holds here as soon as it is heard of."""

    def __init__(self, image: Image, clock: SteadyClock, super_users: Collection[str] = ()) -> None:
        self._image = image
        self._super_users = frozenset(super_users)
        self.now_ms = clock.now_ms

    def user(self, name: str) -> UserRecord | None:
        """One that may come in."""
        found = self._image.user(name)
        return None if found is None or found.disabled else found

    def key(self, key_id: str) -> KeyRecord | None:
        """One that counts: it has not run out, and its owner is still there."""
        found = self._image.key(key_id)
        if found is None or (found.expires_ms is not None and found.expires_ms <= self.now_ms()):
            return None
        owner = self.user(found.owner)
        return found if owner is not None and owner.created_ms == found.owner_ms else None

    def of_user(self, user: UserRecord) -> Principal:
        return Principal(user.name, user.created_ms)

    def of_key(self, key: KeyRecord) -> Principal:
        return Principal(key.owner, key.owner_ms, key.id, key.expires_ms)

    def placed(self, one: Principal) -> Principal:
        """With its tenant: that of the user of its name, however it has shown that name."""
        return replace(one, tenant=self._tenant_of(one.principal))

    def _tenant_of(self, principal: str) -> str:
        found = self._image.user(principal)
        return "" if found is None else found.tenant

    def holds(self, one: Principal) -> bool:
        """Whether it may go on."""
        if one.expires_ms is not None and one.expires_ms <= self.now_ms():
            return False
        found = self._image.user(one.principal)
        if self._tenant_of(one.principal) != one.tenant and one.user_ms is None:
            return False
        if one.user_ms is None:
            return self._may_be_unknown(one.principal) if found is None else not found.disabled
        if found is None or found.disabled or found.created_ms != one.user_ms:
            return False
        return not one.key or self.key(one.key) is not None

    def _may_be_unknown(self, name: str) -> bool:
        """A certificate or token outlives its user, and would then belong to no tenant: it would be an operator's."""
        return not self._image.has_tenants or name in self._super_users
