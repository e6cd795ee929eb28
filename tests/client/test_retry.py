"""What is repeated, and what never is."""

from __future__ import annotations

import pytest

from goqueue.client.errors import ConnectionFailed, GoQueueClientError, TimedOut
from goqueue.client.retry import Retries

NEVER_ARRIVED = ConnectionFailed("d", may_have_arrived=False)
OVERLOADED = GoQueueClientError("overloaded", "d", None, 503)


@pytest.mark.parametrize(
    ("why", "may"),
    [
        (NEVER_ARRIVED, True),
        (OVERLOADED, True),
        (ConnectionFailed("d", may_have_arrived=True), False),
        (TimedOut("d"), False),
        (GoQueueClientError("storage-failed", "d", None, 503), False),
        (GoQueueClientError("disk-full", "d", None, 507), False),
        (GoQueueClientError("unknown-topic", "d", None, 404), False),
        (GoQueueClientError("bad-reply", "d"), False),
    ],
)
def test_only_what_surely_was_not_stored_is_repeated(why: GoQueueClientError, may: bool) -> None:
    assert Retries().may_repeat(why) is may


def test_lost_answers_are_repeated_on_request() -> None:
    assert Retries(lost_answers=True).may_repeat(TimedOut("d"))


def test_pauses_double_up_to_a_bound_and_are_spread() -> None:
    rules = Retries(pause_first=1.0, pause_max=4.0, seconds_max=100.0)
    assert [rules.pause(OVERLOADED, attempt, 0.0, 1.0) for attempt in (1, 2, 3, 4, 2000)] == [1.0, 2.0, 4.0, 4.0, 4.0]
    assert rules.pause(OVERLOADED, 1, 0.0, 0.0) == 0.5


def test_it_gives_up_when_the_messages_would_be_too_old() -> None:
    rules = Retries(pause_first=1.0, seconds_max=10.0)
    assert rules.pause(NEVER_ARRIVED, 1, 9.0, 1.0) == 1.0
    assert rules.pause(NEVER_ARRIVED, 1, 9.1, 1.0) is None
    assert rules.pause(TimedOut("d"), 1, 0.0, 1.0) is None
