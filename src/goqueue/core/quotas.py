"""How long a client has to wait because of what it did: whoever is over a limit waits until the average is kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from goqueue.base.ids import Millis
from goqueue.base.limits import QUOTA_CLIENTS_KNOWN_MAX, THROTTLE_MS_MAX
from goqueue.base.quotas import EACH, Quota, QuotaEntity

_BURST_S: Final = 0.25  # what was not used for longer than this is lost


class Meter:
    """So many a second. What is over is owed, and paid off as time goes by."""

    __slots__ = ("_at", "_kept_s", "_left", "per_s")

    def __init__(self, per_s: float, now: Millis, kept_s: float = _BURST_S) -> None:
        """`kept_s`: what was not used for longer than this is lost."""
        self.per_s = per_s
        self._left = per_s * _BURST_S
        self._kept_s = kept_s
        self._at = now

    def left(self, now: Millis) -> float:
        """What may be spent at once; less than nothing is owed."""
        self._fill(now)
        return self._left

    def charge(self, amount: float, now: Millis) -> Millis:
        """How long to wait after this."""
        self._fill(now)
        self._left = max(self._left - amount, -self.per_s * THROTTLE_MS_MAX / 1000)
        return self.wait_ms(now)

    def wait_ms(self, now: Millis) -> Millis:
        self._fill(now)
        return 0 if self._left >= 0 else max(1, min(THROTTLE_MS_MAX, round(-self._left * 1000 / self.per_s)))

    def _fill(self, now: Millis) -> None:
        self._left = min(self.per_s * self._kept_s, self._left + max(0, now - self._at) * self.per_s / 1000)
        self._at = now


class QuotaClient(NamedTuple):
    """Who did something."""

    user: str
    client_id: str = ""
    tenant: str = ""


class QuotaTable:
    """All quotas, and what the clients that are under one owe. The most specific quota that has a limit holds."""

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {one.entity: one.limits for one in quotas}
        self._meters: OrderedDict[tuple[str | None, str | None, str], Meter] = OrderedDict()

    def set(self, quotas: Iterable[Quota]) -> None:
        """These hold from now on. What clients owe under limits that stay as they were, they go on to owe."""
        self._quotas = {one.entity: one.limits for one in quotas}

    @property
    def is_empty(self) -> bool:
        return not self._quotas

    def charge(self, who: QuotaClient, limit: str, amount: float, now: Millis) -> Millis:
        """How long the client has to wait after this; 0 without a limit."""
        return max((one.charge(amount, now) for one in self._meters_of(who, limit, now)), default=0)

    def wait_ms(self, who: QuotaClient, limit: str, now: Millis) -> Millis:
        """How long it has to wait because of what it did before."""
        return max((one.wait_ms(now) for one in self._meters_of(who, limit, now)), default=0)

    def total(self, tenant: str, limit: str) -> float | None:
        """How much a tenant may have."""
        for name in (tenant, EACH):
            if (most := self._quotas.get(QuotaEntity(tenant=name), {}).get(limit)) is not None:
                return most
        return None

    def _meters_of(self, who: QuotaClient, limit: str, now: Millis) -> Iterator[Meter]:
        """Its own, and its tenant's, which all of the tenant share."""
        if (meter := self._meter(who.user, who.client_id, limit, now)) is not None:
            yield meter
        if who.tenant and (per_s := self.total(who.tenant, limit)) is not None:
            yield self._known((None, who.tenant, f"tenant {limit}"), per_s, now)

    def _meter(self, user: str, client_id: str, limit: str, now: Millis) -> Meter | None:
        for entity in _entities(user, client_id):
            per_s = self._quotas.get(entity, {}).get(limit)
            if per_s is not None:
                mine = (None if entity.user is None else user, None if entity.client_id is None else client_id, limit)
                return self._known(mine, per_s, now)
        return None

    def _known(self, whose: tuple[str | None, str | None, str], per_s: float, now: Millis) -> Meter:
        """Who was not heard of for longest is forgotten first."""
        meter = self._meters.pop(whose, None)
        if meter is None or meter.per_s != per_s:
            meter = Meter(per_s, now)
        self._meters[whose] = meter
        if len(self._meters) > QUOTA_CLIENTS_KNOWN_MAX:
            self._meters.popitem(last=False)
        return meter


def _entities(user: str, client_id: str) -> Iterator[QuotaEntity]:
    """Whose limits hold for a client; the most specific first, as in Kafka."""
    for one in (user, EACH):
        yield QuotaEntity(one, client_id or EACH)
        yield QuotaEntity(one, EACH)
        yield QuotaEntity(one, None)
    yield QuotaEntity(None, client_id or EACH)
    yield QuotaEntity(None, EACH)
