"""How much clients may: doors tell what each did, and are told how long it has to wait. Rates are counted by each node
for itself; of what a tenant has a node knows what the others counted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.commands import Caller
from goqueue.base.errors import Throttled, TooManyRules
from goqueue.base.ids import Millis
from goqueue.base.limits import QUOTAS_MAX
from goqueue.base.metadata import Change, Commit
from goqueue.base.quotas import HELD_BY_NODES, RATES, REQUESTS, Quota, QuotaEntity, check_quota
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import QUOTAS, QuotaRecord, encode
from goqueue.core.quotas import QuotaClient, QuotaTable
from goqueue.drive.image_follower import ImageFollower
from goqueue.service.metrics import BrokerMetrics

_HEARD_MS: Final = 10_000  # so long what another node told counts; it may be gone since

Held: TypeAlias = dict[str, dict[str, int]]  # how much tenants have somewhere, by limit and tenant


class ClientQuotas:
    """What doors ask. Without any quota that is one look at `is_set`."""

    def __init__(self, image: Image, clock: SteadyClock, metrics: BrokerMetrics) -> None:
        self._image = image
        self._clock = clock
        self._metrics = metrics
        self._table = QuotaTable()
        self._heard: dict[int, tuple[Millis, Held]] = {}  # by node: until when it counts
        self.is_set = False
        self.limits_of_tenants: frozenset[str] = frozenset()  # some tenant has these, and nodes count them

    def metadata_changed(self, change: Change) -> None:
        if any(key.startswith(QUOTAS) for key in (*change.deletes, *(entry.key for entry in change.puts))):
            self._table.set(self._image.quotas())
            self.is_set = not self._table.is_empty
            limits = {limit for one in self._image.quotas() if one.entity.tenant is not None for limit in one.limits}
            self.limits_of_tenants = frozenset(limits & HELD_BY_NODES)

    def charge(self, caller: Caller, client_id: str, limit: str, amount: int) -> Millis:
        """How long the client has to wait after so many bytes or requests."""
        return self._table.charge(_client(caller, client_id), limit, amount, self._clock.monotonic_ms())

    def owed_ms(self, caller: Caller, limit: str) -> Millis:
        """How long the caller has to wait because of what it did before."""
        return self._table.wait_ms(_client(caller), limit, self._clock.monotonic_ms())

    def total(self, tenant: str, limit: str) -> float | None:
        """How much a tenant may have of something."""
        return self._table.total(tenant, limit)

    def heard(self, node: int, held: Held) -> None:
        """So much tenants have at another node."""
        self._heard[node] = self._clock.monotonic_ms() + _HEARD_MS, held

    def elsewhere(self, tenant: str, limit: str) -> int:
        """How much a tenant has at all other nodes, as they told last."""
        if not self._heard:
            return 0
        now = self._clock.monotonic_ms()
        return sum(held.get(limit, {}).get(tenant, 0) for until, held in self._heard.values() if now < until)

    def admit(self, caller: Caller) -> None:
        """One more request over HTTP; `Throttled` if the caller has to wait because of what it did before."""
        now = self._clock.monotonic_ms()
        waits = {limit: self._table.wait_ms(_client(caller), limit, now) for limit in RATES}
        limit = max(waits, key=lambda one: waits[one])
        if waits[limit]:
            raise self.refusal(caller, limit, waits[limit])
        self._table.charge(_client(caller), REQUESTS, 1, now)

    def refusal(self, caller: Caller, limit: str, wait_ms: Millis) -> Throttled:
        self.throttled(caller.door, limit, wait_ms)
        return Throttled(f"{caller.principal[:80]} is over its {limit}; try again in {wait_ms} ms.", retry_ms=wait_ms)

    def throttled(self, door: str, limit: str, wait_ms: Millis) -> None:
        """A client was told to wait, or is made to."""
        self._metrics.throttled.labels(door, limit).inc()
        self._metrics.throttled_seconds.labels(door, limit).inc(wait_ms / 1000)


def _client(caller: Caller, client_id: str = "") -> QuotaClient:
    return QuotaClient(caller.principal, client_id, caller.tenant)


def quota_key(entity: QuotaEntity) -> str:
    """Where it is in the metadata."""
    named = {"user": entity.user, "client_id": entity.client_id}
    named |= {} if entity.tenant is None else {"tenant": entity.tenant}
    return QUOTAS + hashlib.sha256(msgspec.json.encode(named)).hexdigest()[:40]


class Quotas:
    """The verbs of administrators."""

    def __init__(self, metadata: ImageFollower) -> None:
        self._metadata = metadata

    def list(self) -> list[Quota]:
        return sorted(self._metadata.image.quotas(), key=lambda one: str(one.entity))

    async def alter(self, entity: QuotaEntity, changes: Mapping[str, float | None], only_check: bool = False) -> Quota:
        """What holds then; None takes a limit away. A quota without limits is none."""
        check_quota(entity, changes)
        known = {one.entity: one.limits for one in self._metadata.image.quotas()}
        limits = {**known.get(entity, {}), **changes}
        quota = Quota(entity, {name: float(value) for name, value in limits.items() if value is not None})
        if len(known) >= QUOTAS_MAX and entity not in known:
            raise TooManyRules(f"There are {len(known)} quotas, as many as are kept.")
        if not only_check:
            await self._save(quota)
        return quota

    async def _save(self, quota: Quota) -> None:
        key = quota_key(quota.entity)
        if quota.limits:
            await self._metadata.commit(Commit({key: encode(QuotaRecord(quota))}))
        else:
            await self._metadata.commit(Commit(deletes=[key]))
