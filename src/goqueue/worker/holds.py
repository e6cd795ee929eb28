"""What a worker holds: memberships in the group, and the leases of their messages, renewed while tasks run.

A poll whose answer got lost may have handed out messages that nobody knows of, and a node that started again may not
know the member. To get them back, or in again, the member has to join again, and would give back what still runs too.
So it takes nothing more, leaves when its last task is done, and another member takes its place.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from goqueue.client import (
    AsyncClient,
    AsyncConsumer,
    ConnectionFailed,
    GoQueueClientError,
    MustJoinAgain,
    PartlyAnswered,
)
from goqueue.client.answer_calls import extend
from goqueue.client.leases import Leased

logger = logging.getLogger("goqueue.worker")

_POLL_SECONDS: Final = 10.0
_PAUSE_FIRST: Final = 0.1
_PAUSE_MAX: Final = 5.0
# Of one receipt among several there is no status.
_PASSING: Final = frozenset(
    {
        "fenced-epoch",
        "leader-changed",
        "not-enough-replicas",
        "not-leader",
        "not-loaded",
        "overloaded",
        "peer-lost",
        "peer-out-of-reach",
        "replicas-timed-out",
        "session-lost",
        "shutting-down",
        "storage-failed",
        "taking-over",
        "throttled",
        "too-few-have-it",
        "unknown-epoch",
    }
)


def may_pass(why: GoQueueClientError) -> bool:
    """Whether the same may go well in a moment: nothing is known of the lease."""
    return isinstance(why, ConnectionFailed) or why.status == 503 or why.code in _PASSING


class _Member:
    def __init__(self, consumer: AsyncConsumer) -> None:
        self.consumer = consumer
        self.held: set[str] = set()
        self.is_retired = False


class Holds:
    """Takes messages of these topics as one member after the other."""

    def __init__(self, client: AsyncClient, group: str, topics: Sequence[str], lease: float) -> None:
        self._client = client
        self._group = group
        self._topics = topics
        self._lease = lease
        self._member: _Member | None = None
        self._retired: set[_Member] = set()
        self._renewed: dict[str, float] = {}  # when the lease of each receipt began
        self._member_of: dict[str, _Member] = {}

    def __len__(self) -> int:
        return len(self._renewed)

    async def take(self, limit: int) -> list[Leased]:
        """Waits for messages; none if the wait was in vain. A broker that is away is waited for."""
        failed = 0
        while True:
            try:
                member = await self._current()
                messages = await member.consumer.poll(limit, _POLL_SECONDS, keep_held=bool(member.held))
            except MustJoinAgain:
                continue
            except GoQueueClientError as error:
                failed += 1
                logger.log(logging.WARNING if failed == 1 else logging.DEBUG, "cannot take tasks: %s", error)
                await asyncio.sleep(min(_PAUSE_MAX, _PAUSE_FIRST * 2.0 ** min(failed, 10)))
                continue
            self._add(member, messages)
            return list(messages)

    async def _current(self) -> _Member:
        member = self._member
        if member is not None and member.consumer.must_join and member.held:
            member.is_retired = True
            self._retired.add(member)
            member = self._member = None
        if member is None:
            lease_ms = round(self._lease * 1000)
            consumer = self._client.consumer(
                self._group,
                self._topics,
                mode="shared",
                visibility_timeout=lease_ms,
                auto_commit=False,
                patience=0.0,
                client_id="goqueue-worker",
            )
            await consumer.__aenter__()
            member = self._member = _Member(consumer)
        return member

    def _add(self, member: _Member, messages: Sequence[Leased]) -> None:
        now = time.monotonic()
        for message in messages:
            self._renewed[message.receipt] = now
            self._member_of[message.receipt] = member
            member.held.add(message.receipt)

    async def answered(self, receipts: Sequence[str]) -> None:
        """These are done with; a member that was retired leaves with its last."""
        for receipt in receipts:
            self._renewed.pop(receipt, None)
            member = self._member_of.pop(receipt, None)
            if member is not None:
                member.held.discard(receipt)
        for member in [one for one in self._retired if not one.held]:
            self._retired.discard(member)
            await member.consumer.close()

    async def give_back(self, receipts: Sequence[str]) -> None:
        """To whoever is free; that is no failure."""
        if receipts:
            try:
                await self._client.perform(extend(receipts, 0))
            except GoQueueClientError as error:
                logger.debug("could not give back %d tasks: %s", len(receipts), error)
            await self.answered(receipts)

    async def keep_renewing(self) -> None:
        """Until cancelled. Leases are renewed when a third of them has passed."""
        while True:
            await asyncio.sleep(self._lease / 6)
            old = time.monotonic() - self._lease / 3
            due = [receipt for receipt, since in self._renewed.items() if since <= old]
            if due:
                await self._renew(due)

    async def _renew(self, due: list[str]) -> None:
        now = time.monotonic()
        lost, failed = set[str](), set[str]()
        try:
            await self._client.perform(extend(due, round(self._lease * 1000)))
        except PartlyAnswered as error:
            failed = {receipt for receipt, why in error.failures.items() if may_pass(why)}
            lost = set(error.failures) - failed
        except GoQueueClientError as error:
            if error.code != "stale-receipt":
                logger.warning("could not renew the leases of %d tasks: %s", len(due), error)
                return
            lost = set(due)
        if lost := {receipt for receipt in lost if receipt in self._renewed}:
            logger.warning("%d tasks were given to others while they ran here", len(lost))
            await self.answered(list(lost))
        for receipt in due:
            if receipt in self._renewed and receipt not in failed:
                self._renewed[receipt] = now

    async def close(self) -> None:
        """Leaves the group: what is still held goes to others at once."""
        for member in [*self._retired, *([self._member] if self._member is not None else [])]:
            await member.consumer.close()
