"""How a consumer takes messages: the options that both forms share."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import TypedDict, Unpack

import msgspec

from goqueue.client import checks
from goqueue.client.errors import invalid
from goqueue.client.member_calls import Begin, Joining, Lanes, Mode
from goqueue.client.membership import Membership
from goqueue.client.messages import Span
from goqueue.client.retry import Retries
from goqueue.client.transport import DEFAULT_PATIENCE


class ConsumerOptions(TypedDict, total=False):
    """`ConsumerSettings` as keywords; what is left out has its default."""

    mode: Mode
    visibility_timeout: Span | None
    auto_commit: bool | None
    lanes: Lanes
    from_: Begin
    session_timeout: Span | None
    client_id: str
    prefetch: int
    patience: float
    retries: Retries


class ConsumerSettings(msgspec.Struct, frozen=True):
    """How to take messages.

    `mode` is `partition` (each member takes from its own partitions) or `shared` (any takes any); the first member's
    choice is the group's. `auto_commit` lets the broker ack for the member; None means yes by partition, no in a
    shared group. `from_` is where a group without a position begins. A loop takes `prefetch` messages at once: their
    leases run while they wait for their turn. A broker that is away is waited for up to `patience` seconds, and
    answers that surely did not arrive are repeated as `retries` says.
    """

    mode: Mode = "partition"
    visibility_timeout: Span | None = None
    auto_commit: bool | None = None
    lanes: Lanes = "weighted"
    from_: Begin = "earliest"
    session_timeout: Span | None = None
    client_id: str = "goqueue-python"
    prefetch: int = 1
    patience: float = DEFAULT_PATIENCE
    retries: Retries = Retries()


def settings_of(**options: Unpack[ConsumerOptions]) -> ConsumerSettings:
    settings = ConsumerSettings(**options)
    checks.choice(settings.mode, Mode, "mode")
    checks.choice(settings.lanes, Lanes, "lanes")
    checks.choice(settings.from_, Begin, "from_")
    if settings.auto_commit is not None:
        checks.flag(settings.auto_commit, "auto_commit")
    checks.text(settings.client_id, "client_id")
    checks.whole_number(settings.prefetch, "prefetch")
    checks.seconds(settings.patience, "patience")
    checks.instance(settings.retries, Retries, "retries")
    if settings.prefetch < 1:
        raise invalid("A consumer takes at least one message at a time.", "prefetch")
    return settings


def membership_of(group: str, topics: Sequence[str], settings: ConsumerSettings) -> Membership:
    """A member of its own; the id is chosen here, so that a join whose answer got lost can be repeated."""
    if isinstance(topics, str) or not isinstance(topics, Sequence):
        raise invalid(f"Give a list of topics, like [{str(topics)!r}].", "topics")
    joining = Joining(
        group=group,
        topics=topics,
        client_id=settings.client_id,
        member_id=f"{settings.client_id}-{uuid.uuid4()}",
        mode=settings.mode,
        visibility_timeout=settings.visibility_timeout,
        auto_commit=settings.auto_commit,
        lanes=settings.lanes,
        begin=settings.from_,
        session_timeout=settings.session_timeout,
    )
    return Membership(joining, settings.patience, time.monotonic)
