"""Which leases receipts name. Those of one poll are a run, and are told as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from goqueue.base.errors import Invalid, StaleReceipt
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.leases import Outcome, Receipt, ReceiptRun, parse_receipt, parse_receipt_run, receipt_stretches
from goqueue.core.delivery.lane import Lease, TrackedMessage
from goqueue.core.delivery.machine import Delivery
from goqueue.drive.delivery_shards import DeliveryShards

Check = Callable[[TrackedMessage], None]  # may refuse a message


class LeasedMessages(msgspec.Struct):
    """Messages of one view that receipts name, with the receipts' places, and who holds them."""

    delivery: Delivery
    by_offset: dict[Offset, int] = {}  # the place of its receipt
    owners: set[str] = set()
    row: range | None = None  # instead, where all receipts of a call name messages in a row, in order

    @property
    def offsets(self) -> Sequence[Offset]:
        return list(self.by_offset) if self.row is None else self.row

    @property
    def places(self) -> Iterable[int]:
        """Of their receipts."""
        return self.by_offset.values() if self.row is None else range(len(self.row))


def sort_receipts(
    runner: DeliveryShards,
    receipts: Sequence[str],
    outcomes: list[Outcome],
    late_too: bool = False,
    check: Check | None = None,
) -> tuple[list[LeasedMessages], list[TopicPartition]]:
    """Live receipts by view, with `late_too` also those whose leases are over; the others get their error. `check` may
    refuse a message. And the partitions that were looked at."""
    sorting = _Sorting(runner, late_too, check)
    sorting.add_all(receipts, outcomes)
    return list(sorting.found.values()), list(sorting.views)


class _Sorting:
    def __init__(self, runner: DeliveryShards, late_too: bool, check: Check | None) -> None:
        self._runner = runner
        self._late_too = late_too
        self._check = check
        self.found: dict[int, LeasedMessages] = {}
        self.views: dict[TopicPartition, list[Delivery]] = {}

    def add_all(self, receipts: Sequence[str], outcomes: list[Outcome]) -> None:
        """At once if they are one run, else stretch by stretch."""
        if len(receipts) > 1 and self._add_run(receipts, 0, is_all=True):
            return
        for begin, end in receipt_stretches(receipts):
            if end - begin == 1 or not self._add_run(receipts[begin:end], begin):
                self._add_each(receipts, begin, end, outcomes)

    def _add_run(self, receipts: Sequence[str], begin: int, *, is_all: bool = False) -> bool:
        """False, and nothing is added, unless all of them name live leases."""
        run = parse_receipt_run(receipts) if self._check is None else None
        if run is None:
            return False
        delivery, owners = self._owners_of(run)
        if delivery is None:
            return False
        if is_all and isinstance(run.offsets, range):
            self.found[id(delivery)] = LeasedMessages(delivery, {}, owners, run.offsets)
            return True
        places = dict(zip(run.offsets, range(begin, begin + len(receipts)), strict=True))
        named = self._named(delivery)
        if len(places) < len(receipts) or not named.by_offset.keys().isdisjoint(places):
            return False
        named.by_offset.update(places)
        named.owners.update(owners)
        return True

    def _owners_of(self, run: ReceiptRun) -> tuple[Delivery | None, set[str]]:
        for delivery in self._deliveries(TopicPartition(run.topic, run.partition)):
            owners = delivery.owners_of(run.offsets, run.attempt, run.nonce)
            if owners is not None:
                return delivery, owners
        return None, set()

    def _add_each(self, receipts: Sequence[str], begin: int, end: int, outcomes: list[Outcome]) -> None:
        for place in range(begin, end):
            try:
                self._add(parse_receipt(receipts[place]), place)
            except (Invalid, StaleReceipt) as error:
                outcomes[place] = error

    def _add(self, receipt: Receipt, place: int) -> None:
        deliveries = self._deliveries(TopicPartition(receipt.topic, receipt.partition))
        delivery, lease = _holder(deliveries, receipt, self._late_too)
        named = self._named(delivery)
        if receipt.offset in named.by_offset:
            raise StaleReceipt("The receipt is there twice; once is enough.")
        if self._check is not None:
            self._check(delivery.tracked(receipt.offset))
        named.by_offset[receipt.offset] = place
        if lease is not None:
            named.owners.add(lease.owner)

    def _deliveries(self, at: TopicPartition) -> list[Delivery]:
        deliveries = self.views.get(at)
        if deliveries is None:
            deliveries = self.views[at] = list(self._runner.at(at))
        return deliveries

    def _named(self, delivery: Delivery) -> LeasedMessages:
        named = self.found.get(id(delivery))
        if named is None:
            named = self.found[id(delivery)] = LeasedMessages(delivery)
        return named


def _holder(deliveries: Sequence[Delivery], receipt: Receipt, late_too: bool) -> tuple[Delivery, Lease | None]:
    """The view whose lease the receipt names, and the message's lease now."""
    for delivery in deliveries:
        held = delivery.find(receipt.offset)
        lease = None if held is None else held.lease
        if lease is not None and lease.nonce == receipt.nonce:
            delivery.check(receipt.offset, receipt.attempt, receipt.nonce)
            return delivery, lease
    for delivery in deliveries if late_too else ():
        if (had := delivery.was_leased(receipt.offset, receipt.nonce)) is not None:
            return delivery, had.lease
    raise StaleReceipt(
        "The lease of this receipt is over (it ran out, was answered, or its consumer lost the partition); "
        "the message comes again unless it was acked."
    )
