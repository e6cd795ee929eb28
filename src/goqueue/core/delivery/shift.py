"""The clock was set: the deadlines of a view stay as far away as they were."""

from __future__ import annotations

from goqueue.base.ids import Millis
from goqueue.core.delivery.delivery_state import DeliveryState
from goqueue.core.delivery.states import MessageState


def shift_deadlines(book: DeliveryState, by_ms: Millis) -> None:
    """`by_ms` is how much later it is all at once; less than nothing if it is earlier."""
    for lease in {id(one): one for _, _, one in book.lease_ends}.values():
        lease.since_ms += by_ms
        lease.until_ms += by_ms
    book.lease_ends = [(end + by_ms, number, lease) for end, number, lease in book.lease_ends]
    for offset in {offset for _, offset in book.waits}:
        held = book.held.get(offset)
        if held is not None and held.state is MessageState.WAITING:
            held.due_ms += by_ms
    book.waits = [(due_ms + by_ms, offset) for due_ms, offset in book.waits]
