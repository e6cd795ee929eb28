"""The shop's staff: members of three groups that take messages under leases and answer for each.

They look only at what is in a message, and their complaints are what the studies have to make sense of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from goqueue.base.decoders import from_json
from goqueue.client import Client
from goqueue.client.calls import RestCall
from goqueue.client.consumer import Consumer
from goqueue.client.leases import LeasedMessage
from goqueue.pipeline.demo.ledger import Ledger

_TAKEN: Final = 250  # messages in one poll
_POLL_S: Final = 0.5
_LEASE: Final = "60s"  # far longer than any of this takes, so that none runs out by accident
_FORGOTTEN_MS: Final = 150


class StaffVerdict(NamedTuple):
    """`ack`, `nack`, `reject`, or `forget`: not to answer at all."""

    kind: str
    reason: str = ""


Judge: TypeAlias = Callable[[LeasedMessage], StaffVerdict]
ACK: Final = StaffVerdict("ack")


def pack(message: LeasedMessage) -> StaffVerdict:
    """What packers say to an order."""
    told = json.loads(message.value or b"null")
    if "street" not in told["address"]:
        return StaffVerdict("reject", f"the address of customer {told['customer']} is incomplete")
    if told["items"][0]["sku"].startswith("vase-"):
        return StaffVerdict("nack", f"item {told['items'][0]['sku']} is not in depot {told['depot']}")
    if told["depot"] == 13 and message.attempt == 1:
        return StaffVerdict("nack", "depot 13 did not answer within 30 ms")
    return ACK


def bill(message: LeasedMessage) -> StaffVerdict:
    """What the accountants say to a payment."""
    try:
        told: dict[str, Any] = json.loads(message.value or b"null")
    except ValueError as error:
        return StaffVerdict("nack", f"cannot read it: {error}")
    if "order" not in told:
        return StaffVerdict("reject", f"payment {told['payment']} names no order")
    if told["method"] == "stolen card":
        return StaffVerdict("reject", f"the bank refused {told['cents']} cents: card reported stolen")
    if told["method"] == "slow bank":
        return StaffVerdict("forget")
    if told.get("bank") == "busy" and message.attempt == 1:
        return StaffVerdict("nack", "the bank is busy, code 503")
    return ACK


def watch(message: LeasedMessage) -> StaffVerdict:
    """Trends are taken as they come."""
    return ACK


class StaffGroup(NamedTuple):
    """Who takes which topic, and what they say. `share` is how much of it they get done."""

    name: str
    topic: str
    judge: Judge
    share: float = 1.0


GROUPS: Final = (
    StaffGroup("packing", "orders", pack),
    StaffGroup("billing", "payments", bill),
    StaffGroup("trends", "clicks", watch, 0.8),
)


def work(url: str, group: StaffGroup, count: int, ledger: Ledger, has_time: Callable[[], bool]) -> None:
    """Takes messages until the group's share of `count` is done, or time is up."""
    with (
        Client(url) as client,
        client.consumer(group.name, [group.topic], mode="shared", visibility_timeout=_LEASE) as c,
    ):
        while has_time() and not _is_done(client, group, count, ledger):
            _answer(c, group, c.poll(_TAKEN, _POLL_S), ledger)


class _Left(msgspec.Struct):
    """What a group still has before it in a topic."""

    ready: int
    in_flight: int
    waiting: int


class _Queues(msgspec.Struct):
    totals: _Left


def _is_done(client: Client, group: StaffGroup, count: int, ledger: Ledger) -> bool:
    """A group that wants all of it is done when nothing is left, dead letters and delayed ones included."""
    if group.share < 1.0:
        return ledger.answers[group.name, "ack"] >= group.share * count
    if client.delay_stats()["pending"]:
        return False
    left = client.perform(_left(group)).totals
    return left.ready + left.in_flight + left.waiting == 0


def _left(group: StaffGroup) -> RestCall[_Queues]:
    query = {"group": group.name, "topic": group.topic}
    return RestCall("GET", "/reliability/stats", lambda status, body: from_json(body, _Queues), query)


def _answer(consumer: Consumer, group: StaffGroup, taken: Sequence[LeasedMessage], ledger: Ledger) -> None:
    by_verdict: dict[StaffVerdict, list[LeasedMessage]] = {}
    for message in taken:
        by_verdict.setdefault(group.judge(message), []).append(message)
    for verdict, some in by_verdict.items():
        _ANSWERS[verdict.kind](consumer, some, verdict.reason)
        ledger.answered(group.name, verdict.kind, len(some))


# A consumer that dies says nothing; its leases run out. Here they run out soon, so that nobody has to wait.
_ANSWERS: Final[dict[str, Callable[[Consumer, Sequence[LeasedMessage], str], None]]] = {
    "ack": lambda consumer, some, reason: consumer.ack(*some),
    "nack": lambda consumer, some, reason: consumer.nack(*some, reason=reason),
    "reject": lambda consumer, some, reason: consumer.reject(*some, reason=reason),
    "forget": lambda consumer, some, reason: consumer.extend(*some, timeout=_FORGOTTEN_MS),
}
