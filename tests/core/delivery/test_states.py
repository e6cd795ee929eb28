"""The table of moves is the truth: every pair is tried."""

from __future__ import annotations

import itertools

import pytest

from goqueue.core.delivery.states import MOVES, DeliveryEvent, IllegalMove, MessageState, moved

LEGAL = {
    "ready take leased",
    "ready condemn dead",
    "ready pass done",
    "ready late_ack done",
    "leased ack done",
    "leased late_ack done",
    "leased extend leased",
    "leased return waiting",
    "leased release ready",
    "leased condemn dead",
    "leased pass done",
    "waiting due ready",
    "waiting pass done",
    "waiting late_ack done",
    "dead inter done",
    "dead release ready",
}


def test_the_table_says_what_this_file_says() -> None:
    assert {f"{state.name} {event.name} {after.name}".lower() for (state, event), after in MOVES.items()} == LEGAL


@pytest.mark.parametrize(("state", "event"), list(itertools.product(MessageState, DeliveryEvent)), ids=str)
def test_every_move_is_in_the_table_or_refused(state: MessageState, event: DeliveryEvent) -> None:
    if (state, event) in MOVES:
        assert moved(state, event) is MOVES[state, event]
    else:
        with pytest.raises(IllegalMove, match=rf"is {state.name.lower()} cannot take {event.name.lower()}"):
            moved(state, event)


def test_done_is_the_end_and_reached_from_everywhere() -> None:
    assert not any(state is MessageState.DONE for state, _ in MOVES)
    reached = {MessageState.READY}
    for _ in MessageState:
        reached |= {after for (state, _), after in MOVES.items() if state in reached}
    assert reached == set(MessageState)
    ends = {MessageState.DONE}
    for _ in MessageState:
        ends |= {state for (state, _), after in MOVES.items() if after in ends}
    assert ends == set(MessageState), "a state from which nothing leads to the end"
