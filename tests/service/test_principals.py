"""Certificates and tokens outlive their users: what a name is worth without one."""

from __future__ import annotations

from goqueue.base.clock import SteadyClock, SystemClock
from goqueue.base.metadata import Change, Entry
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import TENANTS, USERS, TenantRecord, UserRecord, encode
from goqueue.service.principals import Principal, Principals


class World:
    def __init__(self) -> None:
        self.image = Image()
        self.revision = 0
        self.principals = Principals(self.image, SteadyClock(SystemClock()), {"root"})

    def put(self, key: str, record: UserRecord | TenantRecord) -> None:
        self.revision += 1
        self.image.apply(Change(self.revision, [Entry(key, encode(record), self.revision, self.revision)], []))

    def delete(self, key: str) -> None:
        self.revision += 1
        self.image.apply(Change(self.revision, [], [key]))

    def holds(self, name: str) -> bool:
        return self.principals.holds(self.principals.placed(Principal(name)))


def test_without_tenants_a_name_needs_no_user() -> None:
    world = World()
    assert world.holds("ann")
    world.put(USERS + "ann", UserRecord("ann", 1, disabled=True))
    assert not world.holds("ann")


def test_with_tenants_a_name_without_a_user_is_nobody() -> None:
    world = World()
    world.put(TENANTS + "acme", TenantRecord("acme", 1))
    world.put(USERS + "ann", UserRecord("ann", 1, tenant="acme"))
    assert world.principals.placed(Principal("ann")).tenant == "acme" and world.holds("ann")
    world.delete(USERS + "ann")
    assert not world.holds("ann"), "its certificate would be an operator's"
    assert world.holds("root"), "a super user need not be in the table"
    world.delete(TENANTS + "acme")
    assert world.holds("ann") and world.image.tenants() == []
