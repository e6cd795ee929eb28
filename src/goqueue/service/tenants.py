"""Tenants, for administrators: made, listed, deleted, and what each of them has."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TypeVar

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.errors import Invalid, MetadataConflict, TenantExists, TenantInUse, UnknownTenant
from goqueue.base.limits import TENANTS_MAX
from goqueue.base.metadata import ABSENT, Commit
from goqueue.base.quotas import QuotaEntity, tenant_limits
from goqueue.base.tenants import check_tenant, is_within
from goqueue.core.cluster.records import TENANTS, TenantRecord, encode
from goqueue.drive.image_follower import ImageFollower
from goqueue.service.groups import Groups
from goqueue.service.quotas import quota_key
from goqueue.service.schemas import Schemas
from goqueue.service.topics import Topics
from goqueue.service.transactions import TransactionVerbs

T = TypeVar("T")


class TenantUsage(msgspec.Struct, frozen=True):
    """What a tenant has, on all nodes together."""

    topics: int
    partitions: int
    messages: int
    size_bytes: int
    groups: int
    transactional_ids: int
    subjects: int
    users: int
    limits: dict[str, float]  # that hold for it

    @property
    def is_empty(self) -> bool:
        """But for transactional ids, which nobody can delete: they go when nobody uses them."""
        return not (self.topics or self.groups or self.subjects or self.users)


class Tenants:
    """The verbs. The services are those that ask all nodes."""

    def __init__(
        self,
        metadata: ImageFollower,
        clock: SteadyClock,
        topics: Topics,
        groups: Groups,
        transactions: TransactionVerbs,
        schemas: Schemas,
    ) -> None:
        self._metadata = metadata
        self._image = metadata.image
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._transactions = transactions
        self._schemas = schemas

    def list(self) -> list[TenantRecord]:
        return self._image.tenants()

    def show(self, name: str) -> TenantRecord:
        found = self._image.tenant(name)
        if found is None:
            raise UnknownTenant(f"There is no tenant {name[:80]!r}.", field="name")
        return found

    async def usage(self, name: str) -> TenantUsage:
        """Of whatever is called so, whether the tenant is there or not."""
        topics = [one for one in await _told(self._topics.list()) if is_within(name, one.name)]
        groups = [one.group for one in await _told(self._groups.list())]
        ids = [one.transactional_id for one in await _told(self._transactions.all())]
        return TenantUsage(
            len(topics),
            sum(one.num_partitions for one in topics),
            sum(one.messages for one in topics),
            sum(one.size_bytes for one in topics),
            _count(name, groups),
            _count(name, ids),
            _count(name, self._schemas.table.subjects()),
            sum(one.tenant == name for one in self._image.users()),
            tenant_limits(name, self._image.quotas()),
        )

    async def own_usage(self, tenant: str) -> TenantUsage:
        """For somebody of it."""
        if not tenant:
            raise UnknownTenant("You belong to no tenant; /admin/tenants tells what each of them has.")
        return await self.usage(tenant)

    async def create(self, name: str) -> TenantRecord:
        """Nothing that is there already becomes its own."""
        if self._image.tenant(check_tenant(name)) is not None:
            raise _exists(name)
        if len(self._image.tenants()) >= TENANTS_MAX:
            raise Invalid(f"There are {TENANTS_MAX} tenants already; delete some.")
        if not (await self.usage(name)).is_empty:
            raise TenantInUse(f"There are topics, groups or subjects that begin with '{name}~'; delete them first.")
        made, key = TenantRecord(name, self._clock.now_ms()), TENANTS + name
        try:
            await self._metadata.commit(Commit({key: encode(made)}, modified={key: ABSENT}))
        except MetadataConflict:
            raise _exists(name) from None
        return made

    async def delete(self, name: str) -> None:
        """One that has nothing any more. Its limits go with it."""
        self.show(name)
        before = self._image.modified(TENANTS + name)
        if not (await self.usage(name)).is_empty:
            raise TenantInUse(f"The tenant {name!r} has topics, groups, subjects or users; delete them first.")
        key, quota = TENANTS + name, quota_key(QuotaEntity(tenant=name))
        try:
            await self._metadata.commit(Commit(deletes=[key, quota], modified={key: before}))
        except MetadataConflict:
            raise TenantInUse(f"A topic of the tenant {name!r} was made meanwhile; delete it first.") from None


async def _told(asked: list[T] | Awaitable[list[T]]) -> list[T]:
    """At once by this node, or later by all."""
    return await asked if isinstance(asked, Awaitable) else asked


def _count(tenant: str, names: Iterable[str]) -> int:
    return sum(is_within(tenant, one) for one in names)


def _exists(name: str) -> TenantExists:
    return TenantExists(f"There is a tenant {name!r} already.", field="name")
