"""Delays and times to live, as record headers carry them."""

from __future__ import annotations

from typing import Final

from goqueue.base.commands import Headers
from goqueue.base.errors import InvalidField
from goqueue.base.header_values import number_in, shown
from goqueue.base.ids import Millis
from goqueue.base.limits import DELAY_MS_MAX
from goqueue.base.times import parse_duration_ms

DELIVER_AT_HEADER: Final = "goqueue-deliver-at"  # milliseconds since 1970
DELAY_HEADER: Final = "goqueue-delay"  # milliseconds, or a duration like 10s
EXPIRES_HEADER: Final = "goqueue-expires-at"  # milliseconds since 1970
SCHEDULED_HEADER: Final = "goqueue-scheduled"  # where a message that was delayed waited: partition and offset
DELAY_HEADERS: Final = frozenset({DELIVER_AT_HEADER, DELAY_HEADER})


def expires_at(headers: Headers) -> Millis | None:
    """When a message's time to live ends; None if it has none that can be read."""
    for name, value in headers:
        if name == EXPIRES_HEADER and (at := number_in(value)) is not None:
            return at
    return None


def is_expired(headers: Headers, now: Millis) -> bool:
    """Whether a message's time to live has passed; one that cannot be read never does."""
    at = expires_at(headers)
    return at is not None and at <= now


def with_expiry(headers: Headers, at: Millis) -> Headers:
    """The headers with this end of the message's time to live."""
    return (*(pair for pair in headers if pair[0] != EXPIRES_HEADER), (EXPIRES_HEADER, b"%d" % at))


def asked_due(headers: Headers, now: Millis) -> Millis | None:
    """The time that a record's headers ask for; `InvalidField` if they cannot mean one."""
    asked = [(name, value) for name, value in headers if name in DELAY_HEADERS]
    if not asked:
        return None
    if len(asked) > 1:
        raise InvalidField(f"A message has one of {DELIVER_AT_HEADER} and {DELAY_HEADER}, once.", field=asked[1][0])
    name, value = asked[0]
    text = (value or b"").decode("ascii", "replace")
    if name == DELAY_HEADER:
        return check_due(now + parse_duration_ms(text, name), now, name)
    due = number_in(value)
    if due is None:
        raise InvalidField(f"{name} is milliseconds since 1970, not {shown(text)}.", field=name)
    return check_due(due, now, name)


def check_due(due: Millis, now: Millis, field: str) -> Millis:
    """`InvalidField` if it is further off than anybody waits."""
    if due - now > DELAY_MS_MAX:
        raise InvalidField("A message can be delayed by at most ten years.", field=field)
    return due
