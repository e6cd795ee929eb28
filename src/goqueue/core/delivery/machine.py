"""Decides for one view what an answer does, and what time does; `offers.py` what may be handed out.

Every decision is a list of records, and changes nothing: the driver writes them and applies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import chain

from goqueue.base.ids import Millis, Offset
from goqueue.base.priority import NORMAL
from goqueue.core.delivery.appliers import REDRIVEN
from goqueue.core.delivery.lane import Lease
from goqueue.core.delivery.offers import Offers
from goqueue.core.delivery.policy import DeadLetterTarget, Policy
from goqueue.core.delivery.records import (
    Acked,
    DeadLettered,
    DeadLettering,
    Dropped,
    Extended,
    RangesAcked,
    Record,
    Returned,
    pack_cells,
)
from goqueue.core.delivery.runs import split_lent
from goqueue.core.delivery.states import DeliveryEvent
from goqueue.core.delivery.tally import EXPIRED, FAILED, REJECTED
from goqueue.core.retry import backoff_ms


class Delivery(Offers):
    """One group's delivery of one partition."""

    # --- by hand -------------------------------------------------------------------------------------------

    def pull(
        self, offsets: Iterable[Offset], dead_letter_target: DeadLetterTarget, task: str, now: Millis
    ) -> list[Record]:
        """Taken out by hand, in any order: each is a cell of its own."""
        cells = pack_cells((offset, offset) for offset in offsets)
        return [DeadLettering(self.view, NORMAL, cells, REDRIVEN, task, now, False, dead_letter_target)]

    def put_back(self, offsets: Iterable[Offset]) -> list[Record]:
        """Copies that were refused: the messages stay."""
        chosen = tuple(offsets)
        self._state.by_lane(chosen, DeliveryEvent.RELEASE)
        return [Returned(self.view, NORMAL, chosen, (0,) * len(chosen), False)] if chosen else []

    def discard(self, offset: Offset) -> list[Record]:
        return [Dropped(self.view, NORMAL, pack_cells([(offset, offset)]))]

    # --- answers -------------------------------------------------------------------------------------------

    def ack(self, offsets: Sequence[Offset], is_late: bool = False) -> list[Record]:
        """Done with these; `is_late` whoever has them now, if anybody does."""
        rows, others = split_lent(self._state, offsets)
        records = self.ack_ranges(rows)
        lanes = self._state.by_lane(others, DeliveryEvent.LATE_ACK if is_late else DeliveryEvent.ACK)
        records += [Acked(self.view, lane, tuple(found), is_late) for lane, found in lanes.items()]
        return records

    def ack_ranges(self, ranges: Sequence[tuple[Offset, Offset]]) -> list[Record]:
        """Done with everything from the first to the last offset of each; somebody holds it."""
        count = sum(last - first + 1 for first, last in ranges)
        return [RangesAcked(self.view, tuple(chain.from_iterable(ranges)), count)] if ranges else []

    def extend(self, offsets: Iterable[Offset], until_ms: Millis) -> list[Record]:
        return self._extended(offsets, until_ms, None)

    def adopt(self, offsets: Iterable[Offset], owner: str, until_ms: Millis) -> list[Record]:
        """Somebody else holds these from now on, under the same receipts."""
        return self._extended(offsets, until_ms, owner)

    def _extended(self, offsets: Iterable[Offset], until_ms: Millis, owner: str | None) -> list[Record]:
        """What is in ranges stays there."""
        rows, others = split_lent(self._state, list(offsets))
        lanes = self._state.by_lane(others, DeliveryEvent.EXTEND)
        for first, last in rows:
            while first <= last:
                one = self._state.lent.find(first)
                assert one is not None
                end = min(last, one.last)
                lanes.setdefault(one.lane, []).extend(range(first, end + 1))
                first = end + 1
        return [Extended(self.view, lane, tuple(sorted(found)), until_ms, owner) for lane, found in lanes.items()]

    def release(self, offsets: Iterable[Offset], policy: Policy, now: Millis) -> list[Record]:
        """Given back without a failure, at once ready for another; a limit on deliveries still holds."""
        return self._give_back(offsets, policy, now, is_failure=False, chance=None)

    def unsend(self, offsets: Iterable[Offset], nonce: str) -> list[Record]:
        """Nobody got what was handed out by this poll: it is ready for another, however often it was delivered."""
        offsets = list(offsets)
        self._state.open_ranges(offsets)
        still = [
            offset for offset in offsets if (held := self.find(offset)) and held.lease and held.lease.nonce == nonce
        ]
        lanes = self._state.by_lane(still, DeliveryEvent.RELEASE)
        return [
            Returned(self.view, lane, tuple(found), (0,) * len(found), False, is_unsent=True)
            for lane, found in lanes.items()
        ]

    def nack(
        self, offsets: Iterable[Offset], policy: Policy, now: Millis, chance: float, delay_ms: Millis | None, text: str
    ) -> list[Record]:
        """Failed: again after a wait, or given up."""
        return self._give_back(offsets, policy, now, is_failure=True, chance=chance, delay_ms=delay_ms, text=text)

    def reject(self, offsets: Iterable[Offset], policy: Policy, now: Millis, text: str) -> list[Record]:
        """Given up at once."""
        lanes = self._state.by_lane(offsets, DeliveryEvent.CONDEMN)
        return [self._given_up(lane, found, REJECTED, text, policy, now) for lane, found in lanes.items()]

    def _give_back(
        self,
        offsets: Iterable[Offset],
        policy: Policy,
        now: Millis,
        *,
        is_failure: bool,
        chance: float | None,
        delay_ms: Millis | None = None,
        text: str = "",
        reason: str = FAILED,
    ) -> list[Record]:
        records: list[Record] = []
        for lane, found in self._state.by_lane(offsets, DeliveryEvent.RETURN).items():
            over, again, due_ms = [], [], []
            for offset in found:
                held = self._state.held[offset]
                failures = held.failed + is_failure
                if policy.gives_up(failures if is_failure else 0, held.handed):
                    over.append(offset)
                    continue
                again.append(offset)
                due_ms.append(_due_ms(failures, policy, now, chance, delay_ms))
            if again:
                expired = is_failure and reason == EXPIRED
                records.append(Returned(self.view, lane, tuple(again), tuple(due_ms), is_failure, expired))
            if over:
                records.append(self._given_up(lane, over, reason, text, policy, now, is_failure=is_failure))
        return records

    def _given_up(
        self,
        lane: int,
        offsets: list[Offset],
        reason: str,
        text: str,
        policy: Policy,
        now: Millis,
        *,
        is_failure: bool = True,
    ) -> Record:
        if policy.dead_letter_target is None:
            return Acked(self.view, lane, tuple(offsets))
        cells = pack_cells((self._state.held[offset].start, offset) for offset in offsets)
        return DeadLettering(self.view, lane, cells, reason, text, now, is_failure, policy.dead_letter_target)

    def release_owner(self, owner: str, policy: Policy, now: Millis, is_failure: bool) -> list[Record]:
        """The owner is gone: what it held goes to others."""
        if owner not in self._state.in_flight:
            return []
        offsets = sorted(self.held_by(owner))
        return self._give_back(offsets, policy, now, is_failure=is_failure, chance=None, reason=EXPIRED)

    def interred(self, offsets: Iterable[Offset]) -> list[Record]:
        """The copies are safe."""
        lanes = self._state.by_lane(offsets, DeliveryEvent.INTER)
        return [DeadLettered(self.view, lane, tuple(found)) for lane, found in lanes.items()]

    # --- time ----------------------------------------------------------------------------------------------

    def recovered(self, now: Millis, policy: Policy) -> list[Record]:
        """Leases that ran out while the node was down are nobody's failure."""
        over = self._over(now)
        return self._give_back(over, policy, now, is_failure=False, chance=None, reason=EXPIRED)

    def tick(self, now: Millis, policy: Policy) -> tuple[list[Record], bool]:
        """Does everything that is due; the flag says that something became ready without a record."""
        woken = self._state.wake(now)
        over = self._over(now)
        records = self._give_back(over, policy, now, is_failure=True, chance=None, reason=EXPIRED) if over else []
        return records, woken

    def _over(self, now: Millis) -> list[Offset]:
        """Leases that ran out. They stay in line until that is written."""
        ends, over = self._state.lease_ends, list[tuple[Millis, int, Lease]]()
        while ends and ends[0][0] <= now:
            over.append(heappop(ends))
        self._open_all(dict.fromkeys(lease for _, _, lease in over))
        for end in over:
            if end[2].offsets:
                heappush(ends, end)
        return sorted(offset for _, _, lease in over for offset in lease.offsets)

    def next_deadline(self) -> Millis | None:
        """When to tick next. It may be early, never late."""
        ends, waits = self._state.lease_ends, self._state.waits
        while ends and not ends[0][2].is_live:
            heappop(ends)
        first = [heap[0][0] for heap in (ends, waits) if heap]
        return min(first, default=None)


def _due_ms(failures: int, policy: Policy, now: Millis, chance: float | None, delay_ms: Millis | None) -> Millis:
    """When it may come again; now, if its lease was its wait."""
    if delay_ms is not None:
        return now + delay_ms
    if chance is None:
        return now
    return now + backoff_ms(failures, policy.retry_ms, policy.retry_ms_max, chance)
