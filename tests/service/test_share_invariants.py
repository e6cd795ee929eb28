"""Share groups over whole brokers in virtual time on a disk that loses power: no record is with two at once, and each
is accepted, archived or a dead letter at last, also where others of the group take message by message."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import groupby

import pytest

from goqueue.base.commands import InputMessage, PublishMessages, StoredAt
from goqueue.base.errors import StaleReceipt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Delivered, Outcome, Take
from goqueue.broker import Broker
from goqueue.core.groups.errors import UnknownMember
from goqueue.core.groups.replies import ConsumerHeartbeatReply
from goqueue.core.groups.requests import ShareHeartbeat
from goqueue.service.sharing import ACCEPT, REJECT, RELEASE, RENEW, Acquired, AnswerRange, ShareTake
from tests.service.test_queue_invariants import PARTITIONS, SEEDS, Heard, Ledger, Lent, Place, World, live_on

GROUP = "g"
LOCK_MS = 20_000
DELIVERIES_MAX = 5
SHARE_SESSION_MS = 30_000  # as a node has it by default
BEAT_MS = 5_000
PLACES = [TopicPartition("t", number) for number in range(PARTITIONS)]


class Sharer(Heard):
    """A member of the share group, as its client's heartbeats see it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, SHARE_SESSION_MS)
        self.epoch = 0  # it has to join

    async def join(self, broker: Broker) -> None:
        reply = await self.say(broker, 0, ["t"])
        assert isinstance(reply, ConsumerHeartbeatReply), reply
        self.epoch = reply.member_epoch

    async def beat(self, broker: Broker) -> None:
        reply = await self.say(broker, self.epoch)
        assert isinstance(reply, ConsumerHeartbeatReply | UnknownMember), reply
        self.epoch = 0 if isinstance(reply, UnknownMember) else reply.member_epoch

    async def say(self, broker: Broker, epoch: int, topics: list[str] | None = None) -> object:
        asked = ShareHeartbeat(group=GROUP, member_id=self.name, member_epoch=epoch, subscribed_topics=topics)
        told = broker.groups.share_heartbeat(asked)
        return await told if isinstance(told, Awaitable) else told


class ShareWorld(World):
    """Three share members, and one consumer of the same group that takes message by message."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.ordered = self.choose.random() < 0.2
        self.deliveries_max = 0
        self.config |= {"queue.order": "key" if self.ordered else "none", "queue.max.deliveries": "0"}
        self.locks = self.choose.choice(["2000", "100"])
        self.ledgers = {GROUP: Ledger()}
        self.members = {}
        self.sharers = [Sharer(f"m{number}") for number in range(3)]

    @property
    def ledger(self) -> Ledger:
        return self.ledgers[GROUP]

    async def step(self, broker: Broker) -> None:
        moves: list[Callable[[Broker], Awaitable[None]]] = [
            self.publish_many, self.acquire, self.take_one_by_one, self.answer_range, self.answer_receipts,
            self.answer_for_another, self.wait, self.close, self.leave_group, self.acquire_all, self.hang_up_share,
        ]  # fmt: skip
        await self.choose.choices(moves, [8, 12, 4, 16, 4, 3, 4, 2, 1, 2, 2])[0](broker)
        self.check_positions(broker)

    async def publish_many(self, broker: Broker) -> None:
        """Mostly batches that nobody need look at."""
        partition, count = self.choose.randrange(PARTITIONS), self.choose.choice([1, 5, 30, 80])
        odd = 0.0 if self.ordered else self.choose.choice([0, 0, 0, 0.1])
        messages = [self.message(partition, odd) for _ in range(count)]
        self.unanswered += count
        results = await broker.publish.messages(PublishMessages("t", messages))
        for message, result in zip(messages, results, strict=True):
            if isinstance(result, StoredAt):
                self.sent[result.partition, result.offset] = message
                self.unanswered -= 1

    def message(self, partition: int, odd: float) -> InputMessage:
        key = self.choose.choice([None, b"a", b"b"])
        if self.choose.random() >= odd:
            return InputMessage(key, b"x", (), partition)
        lane = self.choose.choice([0, 4])
        return InputMessage(key, b"x", (("goqueue-priority", str(lane).encode()),), partition)

    # --- taking ----------------------------------------------------------------------------------------------

    async def acquire(self, broker: Broker) -> None:
        await self.acquire_as(broker, self.choose.choice(self.sharers), self.choose.choice([0, 0, 500]))

    async def acquire_as(self, broker: Broker, sharer: Sharer, wait_ms: int) -> None:
        await self.beat(broker, sharer)
        asked = ShareTake(
            GROUP,
            sharer.name,
            PLACES,
            self.choose.choice([1, 7, 50, 500]),
            1 << 20,
            wait_ms,
            self.choose.random() < 0.7,
        )
        began = self.now_ms()
        self.acquired(sharer.name, await broker.sharing.acquire(asked), began, sharer)

    async def beat(self, broker: Broker, sharer: Sharer) -> None:
        """Joins where it is no member (any more)."""
        began = self.now_ms()
        if sharer.epoch:
            await sharer.beat(broker)
        if not sharer.epoch:
            self.loosen(GROUP, sharer.name)
            began = self.now_ms()
            await self.configure(broker)
            await sharer.join(broker)
        sharer.heard_ms = began

    async def configure(self, broker: Broker) -> None:
        await broker.groups.configure(
            GROUP,
            {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": str(LOCK_MS),
                "share.partition.max.record.locks": self.locks,
            },
        )

    async def wait(self, broker: Broker) -> None:
        """Most members are heard of meanwhile, some fall silent."""
        lively = [one for one in self.sharers if one.epoch and self.choose.random() < 0.8]
        until = self.now_ms() + self.choose.choice([50, 1_000, 3_000, 8_000, 32_000])
        while (left := until - self.now_ms()) > 0:
            await asyncio.sleep(min(left, BEAT_MS) / 1000)
            for one in lively:
                await self.beat(broker, one)

    def acquired(self, member: str, found: list[Acquired], began_ms: int, sharer: Sharer | None = None) -> None:
        self.batches += 1
        for part in found:
            taken = [
                (part.at.partition, offset, one.deliveries)
                for one in part.ranges
                for offset in range(one.first, one.last + 1)
            ]
            assert len({offset for _, offset, _ in taken}) == len(taken)
            for partition, offset, deliveries in taken:
                place = (partition, offset)
                self.took(place, deliveries)
                self.ledger.live[place] = Lent(place, "", member, began_ms + LOCK_MS, self.batches, sharer)

    def took(self, place: Place, deliveries: int) -> None:
        ledger = self.ledger
        assert place not in ledger.over, f"{place} came again, and was done"
        before = ledger.live.get(place)
        assert before is None or not before.is_sure(self.now_ms()), f"two have {place}"
        ledger.seen[place] += 1
        assert ledger.seen[place] <= deliveries <= DELIVERIES_MAX

    async def take_one_by_one(self, broker: Broker) -> None:
        await self.beat(broker, self.sharers[0])
        limit = self.choose.choice([1, 5, 20])
        found: list[Delivered] = await broker.leasing.take(Take(GROUP, PLACES, "rest", limit, None, 0))
        self.batches += 1
        for one in found:
            place = (one.stored.partition, one.stored.offset)
            self.took(place, one.attempt)
            self.ledger.live[place] = Lent(place, one.receipt, "rest", one.leased_until_ms, self.batches)

    async def acquire_all(self, broker: Broker) -> None:
        """Everybody at once, while something is published."""
        everybody = [self.acquire_as(broker, one, 300) for one in self.sharers]
        await asyncio.gather(*everybody, self.publish_many(broker))

    async def hang_up_share(self, broker: Broker) -> None:
        """A fetch whose caller goes away at any moment hands nothing out."""
        self.batches += 1
        owner = f"gone{self.batches}"
        await self.beat(broker, self.sharers[0])
        fetching = asyncio.ensure_future(broker.sharing.acquire(ShareTake(GROUP, owner, PLACES, 20, 1 << 20, 400)))
        began = self.now_ms()
        for _ in range(self.choose.randrange(30)):
            await asyncio.sleep(0)
        if fetching.done():
            self.acquired(owner, fetching.result(), began)
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        if fetching.cancelled():
            assert broker.leasing.in_flight(GROUP, owner) == 0

    # --- answers ---------------------------------------------------------------------------------------------

    def sure_of(self, member: str, partition: int) -> list[Place]:
        now = self.now_ms() + 50
        live = self.ledger.live.items()
        return sorted(
            place for place, one in live if one.owner == member and one.is_sure(now) and place[0] == partition
        )

    async def answer_range(self, broker: Broker) -> None:
        """Parts of what a member holds, each with a type of its own or one for all its records."""
        member, at = f"m{self.choose.randrange(3)}", self.choose.choice(PLACES)
        places = self.sure_of(member, at.partition)
        if not places:
            return
        ranges = [self.answer_for(run) for run in _runs(places) if self.choose.random() < 0.8]
        said = {place: kind for one in ranges for place, kind in _kinds(at.partition, one).items()}
        for place, kind in said.items():
            self.ledger.live[place].is_loose = True
            if kind in (ACCEPT, REJECT):
                self.ledger.unsure.add(place)
        outcomes = await broker.sharing.acknowledge(GROUP, member, {at: ranges}) if ranges else {}
        assert not any(outcomes.values()), f"{ranges} of {member}: {outcomes}"
        for place, kind in said.items():
            self.answered(place, kind)

    def answer_for(self, run: list[int]) -> AnswerRange:
        first, last = sorted(self.choose.choices(run, k=2)) if self.choose.random() < 0.4 else (run[0], run[-1])
        chances = [ACCEPT] * 10 + [RELEASE] * 2 + [REJECT, RENEW]
        if self.choose.random() < 0.7:
            return AnswerRange(first, last, (self.choose.choice(chances),))
        return AnswerRange(first, last, tuple(self.choose.choices(chances, k=last - first + 1)))

    def answered(self, place: Place, kind: int) -> None:
        ledger = self.ledger
        if kind == RENEW:
            ledger.live[place].is_loose = False
            ledger.live[place].until_ms = self.now_ms() + LOCK_MS - 100
            return
        del ledger.live[place]
        if kind in (ACCEPT, REJECT):
            ledger.over.add(place)
            ledger.unsure.discard(place)
        if kind == ACCEPT:
            ledger.acked.add(place)

    async def answer_receipts(self, broker: Broker) -> None:
        places = [place for at in range(PARTITIONS) for place in self.sure_of("rest", at)]
        receipts = [self.ledger.live[place].receipt for place in places]
        if not places:
            return
        kind = self.choose.choice([ACCEPT, ACCEPT, RELEASE])
        for place in places:
            self.ledger.live[place].is_loose = True
            if kind == ACCEPT:
                self.ledger.unsure.add(place)
        leasing = broker.leasing
        outcomes = await (leasing.ack(receipts) if kind == ACCEPT else leasing.extend(receipts, 0))
        assert outcomes == [None] * len(receipts)
        for place in places:
            self.answered(place, kind)

    async def answer_for_another(self, broker: Broker) -> None:
        """Who holds one record of a range too few changes nothing."""
        at = self.choose.choice(PLACES)
        places = self.sure_of("m1", at.partition)
        if not places:
            return
        liar = self.choose.choice(["m0", "m2", "nobody"])
        kind = self.choose.choice([ACCEPT, RELEASE, REJECT, RENEW])
        ranges = [AnswerRange(run[0], run[-1], (kind,)) for run in _runs(places)]
        outcome: Outcome = (await broker.sharing.acknowledge(GROUP, liar, {at: ranges}))[at]
        assert isinstance(outcome, StaleReceipt)

    async def close(self, broker: Broker) -> None:
        """The session ends: everything goes to others."""
        member = f"m{self.choose.randrange(3)}"
        self.loosen(GROUP, member)
        await broker.sharing.release(GROUP, member)
        assert broker.leasing.in_flight(GROUP, member) == 0

    async def leave_group(self, broker: Broker) -> None:
        sharer = self.choose.choice(self.sharers)
        if sharer.epoch:
            self.loosen(GROUP, sharer.name)
            sharer.epoch = 0
            await sharer.say(broker, -1)

    # --- the end ---------------------------------------------------------------------------------------------

    async def drain(self, broker: Broker) -> None:
        """Everybody takes on and accepts everything; in the end nothing is left."""
        self.loosen(GROUP)
        for _ in range(120):
            await asyncio.sleep(1)
            await self.acquire_as(broker, self.sharers[0], 0)
            mine = sorted(
                place for place, one in self.ledger.live.items() if one.owner == "m0" and one.is_sure(self.now_ms())
            )
            for partition, some in groupby(mine, key=lambda place: place[0]):
                ranges = [AnswerRange(run[0], run[-1], (ACCEPT,)) for run in _runs(list(some))]
                at = TopicPartition("t", partition)
                outcomes = await broker.sharing.acknowledge(GROUP, "m0", {at: ranges})
                assert outcomes == {at: None}
            for place in mine:
                self.answered(place, ACCEPT)
            one = broker.leasing.counts(GROUP, "t")
            if not one.ready + one.in_flight + one.waiting + one.dead and not mine:
                break
        assert not one.ready + one.in_flight + one.waiting + one.dead, f"something waits for ever: {one}"


def _runs(places: list[Place]) -> list[list[int]]:
    """Offsets in a row, of one partition."""
    rows = groupby(enumerate(offset for _, offset in places), key=lambda row: row[1] - row[0])
    return [[offset for _, offset in run] for _, run in rows]


def _kinds(partition: int, one: AnswerRange) -> dict[Place, int]:
    offsets = range(one.first, one.last + 1)
    kinds = [*one.kinds] * (len(offsets) if len(one.kinds) == 1 else 1)
    return {(partition, offset): kind for offset, kind in zip(offsets, kinds, strict=True)}


@pytest.mark.parametrize("seed", SEEDS[::2])
def test_no_record_of_a_share_group_is_lost_doubled_or_stuck(seed: int) -> None:
    live_on(ShareWorld(seed), seed, random.Random(seed + 2_000))
