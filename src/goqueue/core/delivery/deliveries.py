"""All queue views of one internal partition, as the machine that a host runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, TypeVar

import msgspec

from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.records import DeadLettering, Forgotten, Opened, Record, ViewId, ViewSnapshot
from goqueue.core.delivery.states import IllegalMove
from goqueue.core.machine import Decision

K = TypeVar("K")
N = TypeVar("N")

_TICK_MESSAGES_MAX: Final = 50_000  # whose leases one decision ends; what is due beyond comes with the next


class Woken(msgspec.Struct, frozen=True):
    """Effect: time made something of the view ready, or done."""

    view: ViewId


class Deliveries:
    """Made empty; every stored record is applied, then `loaded`. Leases hold until `resume`.

    Durable: the views. Volatile: which of them has the next deadline.
    """

    def __init__(self, policy_of: Callable[[ViewId], Policy]) -> None:
        self.views: dict[ViewId, Delivery] = {}
        self._policy_of = policy_of
        self._by_place: dict[TopicPartition, dict[str, Delivery]] = {}
        self._by_group: dict[str, dict[TopicPartition, Delivery]] = {}
        self._deadlines: list[tuple[Millis, ViewId]] = []  # a heap; may be early
        self._armed: dict[ViewId, Millis] = {}
        self._untold: dict[ViewId, None] = {}  # woken by the last tick, in case that it cannot be written
        self._whole: set[ViewId] = set()  # views whose first record was read
        self._is_loaded = self._is_resumed = False

    # --- views ---------------------------------------------------------------------------------------------

    def view(self, view: ViewId) -> Delivery:
        """The view; a new one is known from its first record on."""
        return self.views.get(view) or Delivery(view)

    def at(self, at: TopicPartition) -> Iterator[Delivery]:
        """Every group's view of one partition."""
        return iter(self._by_place.get(at, {}).values())

    def of(self, group: str) -> list[Delivery]:
        """One group's views of all partitions."""
        return list(self._by_group.get(group, {}).values())

    # --- records -------------------------------------------------------------------------------------------

    def apply(self, record: Record, offset: Offset = 0) -> None:
        """The only way in which durable state changes."""
        if not self._is_loaded:
            self._apply_stored(record)
        elif type(record) is Forgotten:
            self._drop(record.view)
        else:
            delivery = self.views.get(record.view) or self._add(record.view)
            delivery.apply(record)
            self._arm(delivery)
            if self._untold:
                self._untold = {}

    def _apply_stored(self, record: Record) -> None:
        """Where a checkpoint cut the log, a view's last steps before its snapshot may speak of what is cut off."""
        if isinstance(record, Forgotten):
            self._drop(record.view)
            return
        if isinstance(record, Opened | ViewSnapshot):
            self._whole.add(record.view)
        try:
            (self.views.get(record.view) or self._add(record.view)).apply(record)
        except (KeyError, IllegalMove):
            if record.view in self._whole:
                raise

    def _add(self, view: ViewId) -> Delivery:
        delivery = self.views[view] = Delivery(view)
        self._by_place.setdefault(view.at, {})[view.group] = delivery
        self._by_group.setdefault(view.group, {})[view.at] = delivery
        return delivery

    def _drop(self, view: ViewId) -> None:
        self.views.pop(view, None)
        self._armed.pop(view, None)
        _leave(self._by_place, view.at, view.group)
        _leave(self._by_group, view.group, view.at)

    def loaded(self, now: Millis) -> Decision[Record]:
        """From now on a record that does not fit is an error."""
        self._is_loaded = True
        self._whole.clear()
        return Decision()

    def snapshot(self) -> Iterator[Record]:
        """Every view whole, each as it is when its turn comes."""
        for view in list(self.views):
            if (delivery := self.views.get(view)) is not None:
                yield delivery.snapshot()

    def revert(self, records: Sequence[Record], now: Millis) -> Sequence[int]:
        """What was due still is."""
        for record in records:
            if (delivery := self.views.get(record.view)) is not None:
                self._arm(delivery)
        for view in self._untold:
            self._armed[view] = now
            heappush(self._deadlines, (now, view))
        return ()

    # --- time ----------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """From now on leases end."""
        self._is_resumed = True
        for delivery in self.views.values():
            self._arm(delivery)

    def tick(self, now: Millis) -> Decision[Record]:
        """Does everything that is due."""
        records: list[Record] = []
        woken, self._untold = self._untold, {}
        weight = 0
        while self._deadlines and self._deadlines[0][0] <= now and weight < _TICK_MESSAGES_MAX:
            deadline, view = heappop(self._deadlines)
            delivery = self.views.get(view)
            if delivery is not None and self._armed.get(view) == deadline:  # else it has an earlier one, or had
                del self._armed[view]
                moves, is_woken = delivery.tick(now, self._policy_of(view))
                records += moves
                weight += sum(_weight(move) for move in moves)
                if moves or is_woken:
                    woken[view] = None
                if not moves:
                    self._arm(delivery)
        self._untold = dict(woken) if records else {}
        return Decision(records, effects=[Woken(view) for view in woken])

    def next_deadline(self) -> Millis | None:
        return self._deadlines[0][0] if self._deadlines and self._is_resumed else None

    def _arm(self, delivery: Delivery) -> None:
        deadline = delivery.next_deadline()
        if deadline is None or self._armed.get(delivery.view, deadline + 1) <= deadline:
            return
        self._armed[delivery.view] = deadline
        heappush(self._deadlines, (deadline, delivery.view))

    def shift(self, by_ms: Millis, now: Millis) -> Decision[Record]:
        """The host writes a checkpoint, so that a start finds the deadlines by the new time."""
        for delivery in self.views.values():
            delivery.shift(by_ms)
        self._deadlines = [(deadline + by_ms, view) for deadline, view in self._deadlines]
        self._armed = {view: deadline + by_ms for view, deadline in self._armed.items()}
        return Decision()


def _leave(table: dict[K, dict[N, Delivery]], key: K, name: N) -> None:
    """Nothing is left of what is empty."""
    inner = table.get(key, {})
    inner.pop(name, None)
    if not inner:
        table.pop(key, None)


def _weight(record: Record) -> int:
    return len(record.cells) // 2 if isinstance(record, DeadLettering) else len(getattr(record, "offsets", ()))
