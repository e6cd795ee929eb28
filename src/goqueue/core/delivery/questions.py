"""What a queue view says of itself. Services ask it these questions and look at nothing else of its state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

import msgspec

from goqueue.base.errors import StaleReceipt
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.priority import NORMAL
from goqueue.core.delivery.delivery_state import DeliveryState
from goqueue.core.delivery.lane import Lease, TrackedMessage
from goqueue.core.delivery.lent import LentRange
from goqueue.core.delivery.policy import DeadLetterTarget
from goqueue.core.delivery.records import Opened, Record, ViewId, ViewSnapshot
from goqueue.core.delivery.runs import History, histories, owners_of
from goqueue.core.delivery.shift import shift_deadlines
from goqueue.core.delivery.states import MessageState
from goqueue.core.delivery.tally import DeliveryCounts


def _in_range(one: LentRange) -> TrackedMessage:
    """A message of a range, as it would be by itself."""
    leased = MessageState.LEASED
    return TrackedMessage(one.lane, one.start, state=leased, handed=1, first_ms=one.first_ms, lease=one.lease)


class LaneCounts(msgspec.Struct):
    """One lane now (`ready`, `leased`, `waiting`) and since the view began (`tracked` are looked at and not done)."""

    ready: int = 0
    leased: int = 0
    waiting: int = 0
    tracked: int = 0
    handed: int = 0
    finished: int = 0
    served_ms: Millis | None = None


class Questions:
    """The state of one view, and what can be asked of it."""

    def __init__(self, view: ViewId) -> None:
        self.view = view
        self.is_new = True  # nothing of it was ever written
        self._state = DeliveryState(view)
        self._seen: dict[int, Offset] = {}  # by lane how far the log was looked through
        self._next: dict[int, Offset] = {}  # by lane where its next message is, where somebody looked for it

    def apply(self, record: Record) -> None:
        """The only way that durable state changes, live and on recovery."""
        self._state.apply(record)
        self.is_new = False
        if isinstance(record, Opened | ViewSnapshot):
            self._seen.clear()
            self._next.clear()

    def wrote(self, now: Millis) -> bool:
        """Records were applied: what may come again at once is ready. Whether copies of the dead are owed."""
        if self._state.waits:
            self._state.wake(now)
        return bool(self._state.dead)

    def wake(self, now: Millis) -> bool:
        """Messages whose wait is over are ready; whether there were any."""
        return self._state.wake(now)

    def snapshot(self) -> ViewSnapshot:
        """A record that stands for everything before it."""
        return self._state.snapshot()

    def shift(self, by_ms: Millis) -> None:
        """The clock was set: deadlines stay as far away as they were."""
        shift_deadlines(self._state, by_ms)

    # --- the view as a whole -------------------------------------------------------------------------------

    @property
    def base(self) -> Offset:
        """Everything below is done, in every lane."""
        return self._state.base

    @property
    def opened(self) -> int:
        """Another number each time the view begins anew: what was found in the log before is then out of date."""
        return self._state.opened

    @property
    def tally(self) -> DeliveryCounts:
        """What became of messages since the view began."""
        return self._state.tally

    def count(self, state: MessageState) -> int:
        """How many messages that were looked at are in this state."""
        return self._state.counts[state]

    def in_flight_of(self, owner: str) -> int:
        return self._state.in_flight.get(owner, 0)

    @property
    def has_free(self) -> bool:
        """Whether a message that was looked at may be handed out now."""
        return self._state.counts[MessageState.READY] > self._state.keys.parked_count

    @property
    def parked_count(self) -> int:
        """How many messages wait behind others of their keys."""
        return self._state.keys.parked_count

    @property
    def done_below(self) -> Offset:
        """How far some lane is done."""
        return max([self._state.base, *(lane.floor for lane in self._state.lanes.values())])

    @property
    def all_done_below(self) -> Offset:
        """Nothing below is open in any lane that was looked at."""
        return min((lane.floor for lane in self._state.lanes.values()), default=self._state.base)

    @property
    def is_plain(self) -> bool:
        """Whether no message with a priority was looked at."""
        return self._state.lanes.keys() <= {NORMAL}

    @property
    def tracks_nothing(self) -> bool:
        """Whether everything that was looked at is done."""
        return not self._state.held and not self._state.lent

    # --- lanes ---------------------------------------------------------------------------------------------

    def knows_lane(self, lane: int) -> bool:
        return lane in self._state.lanes or lane in self._seen

    def look_from(self, lane: int) -> Offset:
        """Where to look for the lane's new messages."""
        known, seen = self._state.lanes.get(lane), self._seen.get(lane, 0)
        begin = self._state.base if known is None else known.scan_from()
        return begin if begin > seen else seen

    @property
    def looked_from(self) -> Offset:
        """Every message below was looked at, in the lanes that are known."""
        return max(self.base, min((self.look_from(lane) for lane in {*self._state.lanes, *self._seen}), default=0))

    def is_lane_clear(self, lane: int) -> bool:
        """Whether nothing of the lane is open among what was looked at."""
        known = self._state.lanes.get(lane)
        return known is None or known.is_clear

    def lane_position(self, lane: int) -> Offset:
        """Nothing of the lane is open below."""
        known = self._state.lanes.get(lane)
        floor = self._state.base if known is None else known.floor
        is_clear = known is None or known.is_clear
        return max(floor, self._seen.get(lane, 0), self._next.get(lane, 0)) if is_clear else floor

    def lane_counts(self) -> dict[int, LaneCounts]:
        found = {
            number: LaneCounts(tracked=lane.held, handed=lane.handed, finished=lane.finished, served_ms=lane.served_ms)
            for number, lane in self._state.lanes.items()
        }
        for one in self._state.lent:
            found[one.lane].leased += one.count
        for held in self._state.held.values():
            match held.state:
                case MessageState.READY:
                    found[held.lane].ready += 1
                case MessageState.LEASED:
                    found[held.lane].leased += 1
                case MessageState.WAITING:
                    found[held.lane].waiting += 1
                case _:
                    pass
        return found

    def looked_to(self, lane: int, offset: Offset) -> None:
        """The log was looked through so far for new messages of the lane. Kept in memory only."""
        self._seen[lane] = max(offset, self._seen.get(lane, 0))

    def goes_on_at(self, lane: int, offset: Offset, *, is_end: bool) -> bool:
        """The lane's next message is there, or with `is_end` none is before. True if that is news; in memory only."""
        if offset <= self.lane_position(lane):
            return False
        self._next[lane] = offset
        if is_end:
            self._seen[lane] = offset
        return True

    # --- messages ------------------------------------------------------------------------------------------

    def find(self, offset: Offset) -> TrackedMessage | None:
        """The message, if it was looked at and is not done. It is read, never changed."""
        return self._state.find(offset)

    def tracked(self, offset: Offset) -> TrackedMessage:
        """The message, which was looked at and is not done. It is read, never changed."""
        held = self._state.find(offset)
        if held is None:
            raise KeyError(offset)
        return held

    def ready_from(self, start: Offset) -> Iterator[Offset]:
        """Messages at `start` or after it that were looked at and are ready."""
        return (at for at, held in self._state.held.items() if held.state is MessageState.READY and at >= start)

    def is_done_below(self, offset: Offset) -> bool:
        """Whether the lanes that are known have nothing open below."""
        return all(lane.floor >= offset for lane in self._state.lanes.values())

    def is_in_flight(self, offset: Offset) -> bool:
        held = self._state.held.get(offset)
        return self._is_lent(offset) if held is None else held.state is MessageState.LEASED

    def _is_lent(self, offset: Offset) -> bool:
        return self._state.lent.find(offset) is not None

    def is_done(self, lane: int, offset: Offset) -> bool:
        if offset in self._state.held or self._is_lent(offset):
            return False
        known = self._state.lanes.get(lane)
        return offset < self._state.base if known is None else known.is_done(offset)

    def leased_among(self, offsets: Iterable[Offset]) -> list[Offset]:
        return [offset for offset in offsets if self.is_in_flight(offset)]

    def held_by(self, owner: str, nonces: Collection[str] | None = None) -> list[Offset]:
        its = [one for _, _, one in self._state.lease_ends if one.owner == owner]
        leases = {id(one): one for one in its if nonces is None or one.nonce in nonces}
        self._open_all(leases.values())
        return [offset for lease in leases.values() for offset in lease.offsets]

    def _open_all(self, leases: Iterable[Lease]) -> None:
        for one in self._state.lent.under(leases) if self._state.lent else ():
            self._state.open_part(one, one.first, one.last)

    def leases(self, limit: int) -> list[tuple[Offset, TrackedMessage]]:
        """Messages that somebody holds, those tracked by themselves first; of ranges each by itself, unopened."""
        alone = ((at, held) for at, held in self._state.held.items() if held.state is MessageState.LEASED)
        ranged = ((offset, _in_range(one)) for one in self._state.lent for offset in range(one.first, one.last + 1))
        return list(islice(chain(alone, ranged), limit))

    def holds(self, owner: str, first: Offset, last: Offset) -> bool:
        """Whether everything from the first to the last is under leases of the owner."""
        state, offset = self._state, first
        while offset <= last:
            one = state.lent.find(offset)
            held = state.held.get(offset) if one is None else None
            lease = one.lease if one is not None else held.lease if held is not None else None
            if lease is None or lease.owner != owner:
                return False
            offset = offset + 1 if one is None else one.last + 1
        return True

    # --- receipts ------------------------------------------------------------------------------------------

    def check(self, offset: Offset, attempt: int, nonce: str) -> TrackedMessage:
        """The message that a receipt names, if its lease is live."""
        if not self.is_leased(offset, attempt, nonce):
            raise StaleReceipt("The lease of this receipt is over; the message may have gone to another consumer.")
        return self._state.held[offset]

    def is_leased(self, offset: Offset, attempt: int, nonce: str) -> bool:
        held = self._state.find(offset)
        return held is not None and held.lease is not None and held.handed == attempt and held.lease.nonce == nonce

    def owners_of(self, offsets: Sequence[Offset], attempt: int, nonce: str) -> set[str] | None:
        """Who has these messages, if a receipt with the attempt and the nonce names the live lease of each of them."""
        return owners_of(self._state, offsets, attempt, nonce)

    def histories(self, offsets: Sequence[Offset]) -> list[tuple[int, History]]:
        """How often messages in a row were handed out and failed, by stretches that have the same."""
        return histories(self._state, offsets)

    def was_leased(self, offset: Offset, nonce: str) -> TrackedMessage | None:
        """The message, if the receipt named one of its last leases, that is over now."""
        held = self._state.held.get(offset)
        return held if held is not None and nonce in held.earlier else None

    # --- dead messages -------------------------------------------------------------------------------------

    @property
    def has_dead(self) -> bool:
        """Whether copies of messages that were given up are owed."""
        return bool(self._state.dead)

    def next_dead(self, limit: int) -> tuple[DeadLetterTarget, dict[Offset, TrackedMessage]]:
        """Some of the dead, all with one target; there is at least one."""
        dead = self._state.dead
        target = next(iter(dead.values())).dead_letter_target
        assert target is not None
        chosen = {offset: held for offset, held in dead.items() if _is_same(held.dead_letter_target, target)}
        return target, dict(sorted(chosen.items())[:limit])

    def dead_among(self, offsets: Iterable[Offset]) -> dict[Offset, TrackedMessage]:
        dead = self._state.dead
        return {offset: dead[offset] for offset in offsets if offset in dead}

    def dead_targets(self) -> dict[TopicPartition, Offset]:
        """Where copies of the dead may be, and from which offset on."""
        targets: dict[TopicPartition, Offset] = {}
        for held in self._state.dead.values():
            if held.dead_letter_target is not None:
                at = TopicPartition(held.dead_letter_target.topic, held.dead_letter_target.partition)
                targets[at] = min(
                    held.dead_letter_target.end_offset, targets.get(at, held.dead_letter_target.end_offset)
                )
        return targets

    # --- a view from which messages are taken by hand --------------------------------------------------------

    def is_open(self, offset: Offset) -> bool:
        """Whether a message that is taken out by hand, never handed out, is still there."""
        lane = self._state.lanes.get(NORMAL)
        held = self._state.find(offset)
        if held is not None:
            return held.state is MessageState.READY
        return offset >= self._state.base if lane is None else not lane.is_done(offset)

    def done_between(self, begin: Offset, end: Offset) -> int:
        """How many offsets were taken out between the two, above what is done without a gap."""
        lane = self._state.lanes.get(NORMAL)
        return 0 if lane is None else sum(max(0, min(last, end) - max(first, begin)) for first, last in lane.done)

    def gone_between(self, begin: Offset, end: Offset) -> int:
        """How many are no longer there between the two: taken out, or on their way."""
        lane = self._state.lanes.get(NORMAL)
        floor = max(self.base, 0 if lane is None else lane.floor)
        going = sum(begin <= offset < end for offset in self._state.dead)
        return max(0, min(floor, end) - begin) + self.done_between(begin, end) + going

    def done_to(self, offset: Offset) -> Offset:
        """The end of what was taken out from there on."""
        lane = self._state.lanes.get(NORMAL)
        return offset if lane is None else lane.done.end_of(offset)

    def redriven_by(self, task: str) -> int:
        """How many messages a redrive moved; known for the last redrive."""
        return self._state.redriven if self._state.task == task else 0


def _is_same(one: DeadLetterTarget | None, other: DeadLetterTarget) -> bool:
    return one is not None and (one.topic, one.partition) == (other.topic, other.partition)
