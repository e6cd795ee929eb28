"""The shape that every coordinator's machine has (groups, deliveries, schedule, transactions, schemas).

A machine decides; the host in `drive/host.py` appends the records of a decision, applies them, and only when they are
durable hands out the replies and performs the effects. Deciding changes nothing durable: it may change who waits,
cursors and caches, which `revert` makes anew when the records could not be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from goqueue.base.ids import Millis, Offset

R = TypeVar("R")

ASKER: Final = 0  # the ticket of whoever asked, where a decision answers nobody else


class Reply(msgspec.Struct, frozen=True):
    """The answer to the request that came with this ticket."""

    ticket: int
    result: Any


class Decision(msgspec.Struct, Generic[R]):
    """Records to append in one batch, then replies, then effects in order; `at_once` waits for none of them."""

    records: list[R] = msgspec.field(default_factory=list)
    replies: list[Reply] = msgspec.field(default_factory=list)
    effects: list[Any] = msgspec.field(default_factory=list)
    at_once: list[Reply] = msgspec.field(default_factory=list)

    def answer(self, ticket: int, result: Any) -> None:
        self.replies.append(Reply(ticket, result))


class Machine(Protocol[R]):
    """What the host asks of a machine; its own questions (`join`, `lease`, `register`) are its own affair."""

    def apply(self, record: R, offset: Offset, /) -> None:
        """A record that is in the log at this offset: the only way in which durable state changes."""
        ...

    def loaded(self, now: Millis, /) -> Decision[R]:
        """Every stored record is applied; from now on the machine is asked. Runs off the event loop."""
        ...

    def revert(self, records: Sequence[R], now: Millis, /) -> Sequence[int]:
        """These could not be written. Volatile state that was changed while deciding them is made anew from what is
        durable; the tickets of those who waited in it, and have to ask again."""
        ...

    def tick(self, now: Millis, /) -> Decision[R]:
        """Does everything that is due."""
        ...

    def next_deadline(self) -> Millis | None:
        """When to tick next. It may be early, never late."""
        ...

    def shift(self, by_ms: Millis, now: Millis, /) -> Decision[R]:
        """The clock was set, and `now` is by the new time: every deadline stays as far away as it was."""
        ...
