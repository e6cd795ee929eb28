"""Which lease a receipt names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from goqueue.base.errors import Invalid, StaleReceipt
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.leases import Outcome, Receipt, parse_receipt
from goqueue.core.delivery.lane import Lease, TrackedMessage
from goqueue.core.delivery.machine import Delivery
from goqueue.drive.delivery_shards import DeliveryShards


class LeasedMessages(msgspec.Struct):
    """Messages of one view that receipts name, with the receipts' places, and who holds them."""

    delivery: Delivery
    offsets: dict[Offset, int] = {}  # by offset the place of its receipt
    owners: set[str] = set()


def sort_receipts(
    runner: DeliveryShards,
    receipts: Sequence[str],
    outcomes: list[Outcome],
    late_too: bool = False,
    check: Callable[[TrackedMessage], None] | None = None,
) -> tuple[list[LeasedMessages], list[TopicPartition]]:
    """Live receipts by view, with `late_too` also those whose leases are over; the others get their error. `check` may
    refuse a message. And the partitions that were looked at."""
    found: dict[int, LeasedMessages] = {}
    views: dict[tuple[str, int], list[Delivery]] = {}
    for place, text in enumerate(receipts):
        try:
            receipt = parse_receipt(text)
            at = (receipt.topic, receipt.partition)
            deliveries = views.get(at)
            if deliveries is None:
                deliveries = views[at] = list(runner.at(TopicPartition(*at)))
            delivery, lease = _holder(deliveries, receipt, late_too)
            named = found.get(id(delivery))
            if named is None:
                named = found[id(delivery)] = LeasedMessages(delivery)
            if receipt.offset in named.offsets:
                raise StaleReceipt("The receipt is there twice; once is enough.")
            if check is not None:
                check(delivery.tracked(receipt.offset))
            named.offsets[receipt.offset] = place
            if lease is not None:
                named.owners.add(lease.owner)
        except (Invalid, StaleReceipt) as error:
            outcomes[place] = error
    return list(found.values()), [TopicPartition(*at) for at in views]


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
