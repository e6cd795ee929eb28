"""The states of a message in the queue view, and the moves between them.

A message that nobody has looked at is ready without being kept anywhere; everything below the floor is done.
"""

from __future__ import annotations

import enum
from typing import Final

from goqueue.base.errors import Conflict


class MessageState(enum.IntEnum):
    READY = 0  # may be handed out now
    LEASED = 1  # with a consumer, until its lease ends
    WAITING = 2  # failed; ready again at its time
    DEAD = 3  # given up; its copy is on the way to the dead letters
    DONE = 4  # over


class DeliveryEvent(enum.IntEnum):
    TAKE = 0  # handed out
    ACK = 1  # the consumer is done with it
    EXTEND = 2  # the consumer keeps it longer
    RETURN = 3  # it failed and comes again
    RELEASE = 4  # given back without a failure
    CONDEMN = 5  # too many failures, rejected, or too old
    DUE = 6  # its wait is over
    INTER = 7  # its copy is safe in the dead letters
    PASS = 8  # the group's position moved beyond it
    LATE_ACK = 9  # somebody who had it before is done with it


MOVES: Final[dict[tuple[MessageState, DeliveryEvent], MessageState]] = {
    (MessageState.READY, DeliveryEvent.TAKE): MessageState.LEASED,
    (MessageState.READY, DeliveryEvent.LATE_ACK): MessageState.DONE,
    (MessageState.READY, DeliveryEvent.CONDEMN): MessageState.DEAD,
    (MessageState.READY, DeliveryEvent.PASS): MessageState.DONE,
    (MessageState.LEASED, DeliveryEvent.ACK): MessageState.DONE,
    (MessageState.LEASED, DeliveryEvent.LATE_ACK): MessageState.DONE,
    (MessageState.LEASED, DeliveryEvent.EXTEND): MessageState.LEASED,
    (MessageState.LEASED, DeliveryEvent.RETURN): MessageState.WAITING,
    (MessageState.LEASED, DeliveryEvent.RELEASE): MessageState.READY,
    (MessageState.LEASED, DeliveryEvent.CONDEMN): MessageState.DEAD,
    (MessageState.LEASED, DeliveryEvent.PASS): MessageState.DONE,
    (MessageState.WAITING, DeliveryEvent.DUE): MessageState.READY,
    (MessageState.WAITING, DeliveryEvent.LATE_ACK): MessageState.DONE,
    (MessageState.WAITING, DeliveryEvent.PASS): MessageState.DONE,
    (MessageState.DEAD, DeliveryEvent.INTER): MessageState.DONE,
    (MessageState.DEAD, DeliveryEvent.RELEASE): MessageState.READY,  # its copy was refused
}


class IllegalMove(Conflict):
    """The message is not in a state that allows this."""


def moved(state: MessageState, event: DeliveryEvent) -> MessageState:
    """The state after the event; `IllegalMove` if the table has none."""
    try:
        return MOVES[state, event]
    except KeyError:
        raise IllegalMove(f"A message that is {state.name.lower()} cannot take {event.name.lower()}.") from None
