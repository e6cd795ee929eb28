"""Messages under leases: take them, and answer for them with ack, nack, reject or extend.

A message is with at most one consumer of a group at a time. What a consumer does with it is durable before it is
answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from goqueue.base.errors import GoQueueError, InvalidField, InvalidReceipt, StaleReceipt
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.leases import Delivered, Outcome, QueueCounts, Receipt, Take, parse_receipt
from goqueue.core.delivery.lane import TrackedMessage
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.records import Record as Move
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.states import MessageState
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.service.environment import Environment
from goqueue.service.fetch import ReadMemory
from goqueue.service.lease_allocator import Handful, LeaseAllocator
from goqueue.service.leased_run import LeasedRun, messages_of
from goqueue.service.queue_events import QueueEvents
from goqueue.service.queue_views import QueueViews
from goqueue.service.receipts import sort_receipts
from goqueue.service.receive_attempts import ReceiveAttempts
from goqueue.service.transfer import Transfer

LEASE_MS_MAX: Final = 12 * 3_600_000
_MOVE_S: Final = 1.0

Answer = Callable[[Delivery, Sequence[Offset], Millis], Sequence[Move]]


def check_lease(lease_ms: Millis) -> None:
    if not 0 <= lease_ms <= LEASE_MS_MAX:
        raise InvalidField(f"A lease is from 0 to {LEASE_MS_MAX} ms.", field="visibility_timeout")


def _parsed(text: str) -> Receipt | None:
    try:
        return parse_receipt(text)
    except InvalidReceipt:
        return None


class Leasing:
    """The verbs."""

    def __init__(
        self,
        taking: LeaseAllocator,
        runner: DeliveryShards,
        views: QueueViews,
        transfer: Transfer,
        events: QueueEvents,
        environment: Environment,
    ) -> None:
        self._taking = taking
        self._runner = runner
        self._views = views
        self._transfer = transfer
        self._events = events
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._metrics = environment.metrics
        self._attempts = ReceiveAttempts(self.extend, environment.clock)

    def stop(self) -> None:
        """Everybody who waits is answered with nothing."""
        self._taking.stop()

    async def take(self, take: Take, interrupt: asyncio.Future[None] | None = None) -> list[Delivered]:
        """Messages under a lease; durable when it returns. Once `interrupt` is done it waits no longer."""
        if take.attempt_id is None or not take.partitions:
            return messages_of(await self._taking.take(take, interrupt))
        lease_ms, first = take.lease_ms, take.partitions[0]
        if lease_ms is None:
            lease_ms = self._views.policy(ViewId(take.group, first.topic, first.partition)).lease_ms
        found = await self._attempts.repeat(take, lease_ms)
        if not found:
            found = messages_of(await self._taking.take(take, interrupt))
            self._attempts.keep(take, found)
        return found

    async def take_runs(self, take: Take, interrupt: asyncio.Future[None] | None = None) -> list[LeasedRun]:
        """The same without attempts, for who need not see every message."""
        return await self._taking.take(take, interrupt)

    async def take_batches(self, take: Take, memory: ReadMemory) -> Handful:
        """As `take`; with `take.in_ranges` in batches, as far as nobody need look at their messages."""
        return await self._taking.take_batches(take, memory)

    def give_back(self, group: str, found: Iterable[Delivered]) -> None:
        """Nobody got these after all."""
        self._taking.give_back(group, found)

    def unsend(self, group: str, nonce: str, offsets: Mapping[TopicPartition, Sequence[Offset]]) -> None:
        """The same, and that the poll with this nonce was handed them does not count."""
        self._taking.unsend(group, nonce, offsets)

    def begin_at_end(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """A group that is new to these begins with what is published from now on."""
        self._views.begin_at_end(group, partitions)

    # --- answers ---------------------------------------------------------------------------------------------

    async def ack(self, receipts: Sequence[str], late_too: bool = False) -> list[Outcome]:
        """Done with these; `late_too` also with those whose leases are over, whoever has the messages now."""
        outcomes = await self._answer(receipts, lambda delivery, offsets, _: delivery.ack(offsets, late_too), late_too)
        self._metrics.acked.inc(outcomes.count(None))
        return outcomes

    async def nack(self, receipts: Sequence[str], delay_ms: Millis | None = None, reason: str = "") -> list[Outcome]:
        """Failed: again after a back-off or the delay named, or to the dead letters if it failed too often."""
        chance = self._entropy.token(1)[0] / 255
        outcomes = await self._answer(
            receipts,
            lambda delivery, offsets, now: delivery.nack(
                offsets, self._views.policy(delivery.view), now, chance, delay_ms, reason
            ),
        )
        await self._see_moved(receipts)
        self._metrics.nacked.inc(outcomes.count(None))
        return outcomes

    async def reject(self, receipts: Sequence[str], reason: str = "") -> list[Outcome]:
        """To the dead letters, now."""
        outcomes = await self._answer(
            receipts,
            lambda delivery, offsets, now: delivery.reject(offsets, self._views.policy(delivery.view), now, reason),
        )
        await self._see_moved(receipts)
        self._metrics.rejected.inc(outcomes.count(None))
        return outcomes

    async def extend(
        self, receipts: Sequence[str], lease_ms: Millis, late_too: bool = False, total_ms_max: Millis | None = None
    ) -> list[Outcome]:
        """The leases end so long from now; with 0 the messages are given back, and that is no failure.

        With `late_too` a receipt whose lease is over acts on the message's lease now; if it has none, nothing happens.
        No lease lasts longer than `total_ms_max` from its beginning.
        """
        check_lease(lease_ms)
        latest_ms = None if total_ms_max is None else self._clock.now_ms() + lease_ms - total_ms_max

        def check(held: TrackedMessage) -> None:
            if latest_ms is not None and held.lease is not None and held.lease.since_ms < latest_ms:
                raise InvalidField(f"A lease lasts at most {total_ms_max} ms in all.", field="visibility_timeout")

        def answer(delivery: Delivery, offsets: Sequence[Offset], now: Millis) -> Sequence[Move]:
            leased = delivery.leased_among(offsets)
            if lease_ms:
                return delivery.extend(leased, now + lease_ms)
            return delivery.release(leased, self._views.policy(delivery.view), now)

        return await self._answer(receipts, answer, late_too, None if latest_ms is None else check)

    async def _see_moved(self, receipts: Sequence[str]) -> None:
        """Who gave a message up finds it in the dead letters, unless moving it takes unusually long."""
        places = {TopicPartition(one.topic, one.partition) for one in map(_parsed, receipts) if one is not None}
        dying = [one.view for at in sorted(places) for one in self._runner.at(at) if one.has_dead]
        for view in dying:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._transfer.finish(view), _MOVE_S)

    def check(self, receipts: Sequence[str]) -> None:
        """Raises for the first that no longer names a live lease."""
        outcomes: list[Outcome] = [None] * len(receipts)
        sort_receipts(self._runner, receipts, outcomes)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def adopt(self, receipts: Sequence[str], owner: str) -> None:
        """The leases are somebody else's from now on and nobody can take them away, whoever leads; the receipts stay
        good. Raises for the first that no longer names a live lease."""
        self.check(receipts)
        until_ms = self._clock.now_ms() + LEASE_MS_MAX
        found, places = sort_receipts(self._runner, receipts, [None] * len(receipts))
        for named in found:
            self._runner.write(named.delivery, named.delivery.adopt(named.offsets, owner, until_ms))
            for before in named.owners:
                self._taking.has_room(named.delivery.view.group, before)
        await self._runner.wait_durable(places)

    async def _answer(
        self,
        receipts: Sequence[str],
        answer: Answer,
        late_too: bool = False,
        check: Callable[[TrackedMessage], None] | None = None,
    ) -> list[Outcome]:
        outcomes: list[Outcome] = [None] * len(receipts)
        now = self._clock.now_ms()
        found, places = sort_receipts(self._runner, receipts, outcomes, late_too, check)
        for named in found:
            delivery = named.delivery
            view = delivery.view
            try:
                self._runner.write(delivery, answer(delivery, named.offsets, now))
            except GoQueueError as error:
                for place in named.places:
                    outcomes[place] = error
            if delivery.count(MessageState.READY):
                self._taking.ready(view)
            self._runner.moved(view)
            for owner in named.owners:
                self._events.answered(view.group, owner)
                self._taking.has_room(view.group, owner)
        if outcomes.count(None) < len(outcomes) and any(isinstance(one, StaleReceipt) for one in outcomes):
            self._runner.confirm(places)  # another node may lead by now, and know the lease
        await self._runner.wait_durable(places)
        return outcomes

    # --- members ---------------------------------------------------------------------------------------------

    def in_flight(self, group: str, owner: str) -> int:
        return sum(delivery.in_flight_of(owner) for delivery in self._runner.of(group))

    async def settled(self, group: str) -> None:
        """Returns when what was said about the group's members here is done; that is at once."""

    async def ack_held(
        self, group: str, owner: str, nonces: Collection[str], among: Collection[TopicPartition] | None = None
    ) -> None:
        """Everything that the owner was handed by these polls, of these partitions or of all, and did not answer is
        done."""
        held = [
            one for one in self._runner.of(group) if one.in_flight_of(owner) and (among is None or one.view.at in among)
        ]
        for delivery in held:
            self._runner.write(delivery, delivery.ack(sorted(delivery.held_by(owner, nonces))))
            self._runner.moved(delivery.view)
        self._taking.has_room(group, owner)
        await self._runner.wait_durable(delivery.view.at for delivery in held)

    def release(
        self, group: str, owner: str, lost: Collection[TopicPartition] | None = None, is_failure: bool = False
    ) -> None:
        """The owner no longer has these partitions, or any: what it holds of them goes to others."""
        now = self._clock.now_ms()
        for delivery in self._runner.of(group):
            if delivery.in_flight_of(owner) and (lost is None or delivery.view.at in lost):
                policy = self._views.policy(delivery.view)
                self._runner.write(delivery, delivery.release_owner(owner, policy, now, is_failure))
                self._taking.ready(delivery.view)

    # --- administration --------------------------------------------------------------------------------------

    def counts(self, group: str, topic: str) -> QueueCounts:
        """How the group stands in a topic; a group that never took anything has all of it before it."""
        return self._views.counts(group, topic)

    def held_of(self, group: str, topic: str) -> int:
        """How many messages of the topic are with consumers of the group now."""
        return self._views.held_of(group, topic)

    async def skip_all(self, group: str, topic: str, among: Sequence[int] | None = None) -> None:
        """Everything up to now counts as done, in these partitions or in all."""
        await self._views.skip_all(group, topic, among)
