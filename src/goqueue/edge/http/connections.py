"""All connections of a door: how many there are, which of them are idle, and what their clients have not read yet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from goqueue.base.errors import GoQueueError, Overloaded
from goqueue.base.http_settings import HttpSettings
from goqueue.edge.slots import ConnectionSlots
from goqueue.service.metrics import BrokerMetrics

_SWEEP_S_MAX: Final = 1.0
_SWEEP_S_MIN: Final = 0.05
_CROWDED: Final = 0.75  # no new request is let in while unread answers take more than this share of their room
_STALLED_S: Final = 1.0  # who read nothing for so long may be cut off to make room


class Rendered(msgspec.Struct, frozen=True):
    """A refusal in the door's own form."""

    status: int
    media_type: str
    body: bytes


Render = Callable[[GoQueueError], Rendered]


class TrackedConnection(Protocol):
    """What the table needs to know of one."""

    address: str

    def unread_bytes(self) -> int: ...

    def stalled_s(self, now: float) -> float: ...

    def check(self, now: float) -> None: ...

    def close_idle(self) -> None: ...

    def cut_off(self, reason: str) -> None: ...


class Connections:
    """One door's. All of it belongs to the loop."""

    def __init__(
        self, door: str, settings: HttpSettings, body_bytes_max: int, metrics: BrokerMetrics, slots: ConnectionSlots
    ) -> None:
        self.limits = settings
        self._slots = slots
        self.body_bytes_max = body_bytes_max
        self._open = metrics.http_connections.labels(door)
        self._refused = metrics.http_refused
        self._unread = metrics.http_unread_bytes.labels(door)
        self._door = door
        self._all: dict[TrackedConnection, None] = {}
        self._idle: dict[TrackedConnection, None] = {}  # the one that is idle the longest comes first
        self._unread_of: dict[TrackedConnection, None] = {}  # those whose client is behind with reading
        self._by_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def setting(self, name: str) -> str:
        """The full name of one of the limits, for those who may want to change it."""
        return f"{self._door}.{name}"

    def count(self, reason: str) -> None:
        self._refused.labels(self._door, reason).inc()

    # --- come and go -----------------------------------------------------------------------------------------

    def admit(self, one: TrackedConnection) -> bool:
        """At a limit the connection that is idle the longest makes room; False if none is."""
        if self._by_address[one.address] >= self.limits.connections_per_address_max:
            if not self._close_idle(one.address):
                self.count("connections-per-address")
                return False
        elif len(self._all) >= self.limits.connections_max and not self._close_idle(None):
            self.count("connections")
            return False
        if self._slots.is_full and not self._close_idle(None):
            self.count("descriptors")
            return False
        self._slots.take()
        self._all[one] = self._idle[one] = None
        self._by_address[one.address] += 1
        self._open.inc()
        return True

    def _close_idle(self, address: str | None) -> bool:
        found = next((one for one in self._idle if address is None or one.address == address), None)
        if found is None:
            return False
        self.count("idle-closed-for-room")
        self.forget(found)
        found.close_idle()
        return True

    def forget(self, one: TrackedConnection) -> None:
        if one in self._all:
            del self._all[one]
            self._slots.give_back()
            self._idle.pop(one, None)
            self._unread_of.pop(one, None)
            self._by_address[one.address] -= 1
            if not self._by_address[one.address]:
                del self._by_address[one.address]
            self._open.dec()

    def busy(self, one: TrackedConnection) -> None:
        self._idle.pop(one, None)

    def idle(self, one: TrackedConnection) -> None:
        if one in self._all:
            self._idle[one] = None

    # --- unread answers --------------------------------------------------------------------------------------

    def behind(self, one: TrackedConnection) -> None:
        """Its client reads more slowly than it is answered. Over a limit, the slowest are cut off."""
        if one.unread_bytes() > self.limits.answer_bytes_max:
            one.cut_off("answer-bytes")
            return
        self._unread_of[one] = None
        if self.unread_bytes() > self.limits.answer_bytes_total_max and not self.make_room(1.0):
            one.cut_off("answer-bytes-total")

    def caught_up(self, one: TrackedConnection) -> None:
        self._unread_of.pop(one, None)

    def unread_bytes(self) -> int:
        return sum(one.unread_bytes() for one in self._unread_of)

    def make_room(self, share: float = 0.5) -> bool:
        """Cuts off readers that stand still until unread answers take no more than this share of what they may."""
        unread, wanted = self.unread_bytes(), self.limits.answer_bytes_total_max * share
        if unread <= wanted:
            return True
        now = asyncio.get_running_loop().time()
        for one in sorted(self._unread_of, key=lambda one: -one.stalled_s(now)):
            if unread <= wanted or one.stalled_s(now) < _STALLED_S:
                break
            unread -= one.unread_bytes()
            one.cut_off("answer-bytes-total")
        return unread <= wanted

    def check_room(self) -> None:
        """`Overloaded` if clients that do not read leave no room for more answers."""
        if self._unread_of and not self.make_room(_CROWDED):
            self.count("answer-bytes-total")
            raise Overloaded("Too many answers wait for their readers; try again in a moment.")

    # --- time ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Looks at all connections again and again: one timer, not one for each."""
        limits = self.limits
        shortest_ms = min(limits.head_ms, limits.idle_ms, limits.body_stall_ms, limits.answer_stall_ms)
        self._period_s = min(_SWEEP_S_MAX, max(_SWEEP_S_MIN, shortest_ms / 4000))
        self._sweep()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for one in list(self._all):
            one.check(now)
        self._unread.set(self.unread_bytes())
        self._timer = loop.call_later(self._period_s, self._sweep)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
