"""What is asked before something is stored or made: how many messages a second, and how much a tenant may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from goqueue.base.clock import SteadyClock
from goqueue.base.commands import INTERNAL_DOOR, Caller
from goqueue.base.errors import MessageTooLarge, QuotaExceeded
from goqueue.base.ids import Millis
from goqueue.base.quotas import DELAYED, GROUPS, IN_FLIGHT, MESSAGE_BYTES, MESSAGES, PARTITIONS, STORAGE, TOPICS
from goqueue.base.tenants import is_within, tenant_of
from goqueue.core.cluster.image import Image
from goqueue.drive.coordinators import GroupHost
from goqueue.drive.topic_table import Topic, TopicTable
from goqueue.service.quotas import ClientQuotas

_MEASURED_MS = 1_000  # what a tenant has stored is summed up this often
_COUNTED_PER_MS = 50


class TenantLimits:
    """All are of the whole cluster. Topics and partitions are counted in its metadata; of the rest this node counts
    its own, and adds what the others told last."""

    def __init__(self, quotas: ClientQuotas, image: Image, table: TopicTable, clock: SteadyClock) -> None:
        self._quotas = quotas
        self._image = image
        self._table = table
        self._clock = clock
        self._stored: dict[str, tuple[Millis, int]] = {}  # when it was measured, and with what came since
        self._counted: dict[tuple[str, str], tuple[Millis, int]] = {}  # until when that holds; with what came since

    def publish(self, caller: Caller, topic: str, size: int, count: int) -> None:
        """Kafka's clients are throttled after they are answered, the others refused while they owe."""
        quotas = self._quotas
        if not quotas.is_set or caller.door == INTERNAL_DOOR:
            return
        if caller.door != "kafka" and (wait_ms := quotas.owed_ms(caller, MESSAGES)):
            raise quotas.refusal(caller, MESSAGES, wait_ms)
        if tenant := tenant_of(topic):
            if caller.door == "kafka":  # of the others every message was looked at
                self._check_size(tenant, size)
            self._check_room(tenant, size)
        quotas.charge(caller, "", MESSAGES, count)

    def message_bytes(self, topic: str, most: int) -> int:
        tenant = tenant_of(topic) if self._quotas.is_set else ""
        own = self._quotas.total(tenant, MESSAGE_BYTES) if tenant else None
        return most if own is None else min(most, int(own))

    def delay(self, topic: str, count: int, pending_of: Callable[[str], int]) -> None:
        tenant = self._limited(topic, DELAYED)
        if tenant:
            self._check_more(tenant, DELAYED, count, lambda: self._pending(tenant, pending_of))

    def lease_room(self, group: str, wanted: int, leased: Callable[[str], Sequence[int]]) -> int:
        """How many messages may be handed out to a group that asks for so many; `leased` counts those that are out, of
        a tenant."""
        tenant = self._limited(group, IN_FLIGHT)
        if not tenant:
            return wanted
        most = self._quotas.total(tenant, IN_FLIGHT) or 0
        elsewhere = self._quotas.elsewhere(tenant, IN_FLIGHT)
        return min(wanted, int(most) - elsewhere - self._count(tenant, IN_FLIGHT, lambda: leased(tenant)))

    def check_lease(self, group: str, leased: Callable[[str], Sequence[int]]) -> None:
        """Before somebody begins to wait for messages."""
        if self.lease_room(group, 1, leased) <= 0:
            raise QuotaExceeded(
                f"As many messages are in flight as the tenant's limit of {IN_FLIGHT} allows; answer for some first."
            )

    def new_group(self, hosts: Iterable[GroupHost], name: str) -> None:
        """It is about to be made; `hosts` are all of this node."""
        tenant = self._limited(name, GROUPS)
        if tenant:
            known = (one for host in hosts if host.is_loaded for one in host.machine.list_groups())
            self._check_more(tenant, GROUPS, 1, lambda: [int(is_within(tenant, one.group)) for one in known])

    def grow(self, topic: str, topics: int, partitions: int) -> None:
        """So many more are about to be made. Whoever makes them writes the tenant's record along, so that what is
        counted here has not changed by then (`TopicRecords`)."""
        tenant = tenant_of(topic)
        if not tenant or not self._quotas.is_set:
            return
        held = [one for one in self._image.topics() if is_within(tenant, one.name)]
        if topics:
            self._check(tenant, TOPICS, len(held) + topics)
        self._check(tenant, PARTITIONS, sum(one.partitions for one in held) + partitions)

    def _pending(self, tenant: str, pending_of: Callable[[str], int]) -> list[int]:
        return [pending_of(one.record.id) if is_within(tenant, one.name) else 0 for one in self._table.all()]

    def _limited(self, name: str, limit: str) -> str:
        """The tenant that something belongs to, if it has such a limit."""
        tenant = tenant_of(name) if self._quotas.is_set else ""
        return tenant if tenant and self._quotas.total(tenant, limit) is not None else ""

    def _check_size(self, tenant: str, size: int) -> None:
        most = self._quotas.total(tenant, MESSAGE_BYTES)
        if most is not None and size > most:
            raise MessageTooLarge(f"The batch has {size} bytes; the tenant's limit of {MESSAGE_BYTES} is {most:.0f}.")

    def _check_more(self, tenant: str, limit: str, more: int, counts: Callable[[], Sequence[int]]) -> None:
        held = self._count(tenant, limit, counts)
        self._check(tenant, limit, held + self._quotas.elsewhere(tenant, limit) + more)
        self._counted[tenant, limit] = self._counted[tenant, limit][0], held + more

    def _count(self, tenant: str, limit: str, counts: Callable[[], Sequence[int]]) -> int:
        """Counted anew the more rarely the more there is to look at, so that it never takes much of the time."""
        now = self._clock.monotonic_ms()
        until, held = self._counted.get((tenant, limit), (now, 0))
        if now >= until:
            found = counts()
            held = sum(found)
            self._counted[tenant, limit] = now + len(found) // _COUNTED_PER_MS, held
        return held

    def _topics_of(self, tenant: str) -> list[Topic]:
        return [topic for topic in self._table.all() if is_within(tenant, topic.name)]

    def _check_room(self, tenant: str, size: int) -> None:
        if self._quotas.total(tenant, STORAGE) is None:
            return
        now = self._clock.monotonic_ms()
        since, stored = self._stored.get(tenant, (now - _MEASURED_MS, 0))
        if now - since >= _MEASURED_MS:
            since, stored = now, self._measured(tenant)
        self._check(tenant, STORAGE, stored + self._quotas.elsewhere(tenant, STORAGE) + size)
        self._stored[tenant] = since, stored + size

    def _measured(self, tenant: str) -> int:
        return sum(partition.size_bytes for topic in self._topics_of(tenant) for partition in topic.partitions)

    def _check(self, tenant: str, limit: str, wanted: int) -> None:
        most = self._quotas.total(tenant, limit)
        if most is not None and wanted > most:
            raise QuotaExceeded(f"This would be {wanted:,} of {limit}, and {most:,.0f} are allowed; delete some first.")
