"""Whole brokers in virtual time on a disk that loses power: whatever happens, no message is lost, doubled or stuck.

A world is a list of lives of one broker, all choices from one seed. Consumers of three groups take, answer, fall silent
and lie; the power goes at a random write. A ledger believes only what was answered, and holds the broker to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from goqueue.base.commands import InputMessage, PublishMessages, StoredAt
from goqueue.base.errors import StaleReceipt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Delivered, Outcome, Take
from goqueue.broker import Broker
from goqueue.core.groups.errors import IllegalGeneration, UnknownGroup, UnknownMember
from goqueue.core.groups.records import Mode
from goqueue.core.groups.requests import CommitRequest, OffsetCommit, RestJoin
from goqueue.format.records import Record
from goqueue.service.consume import Poll
from goqueue.service.readers import MemberReading
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.long import LONG
from tests.service.brokers import broker_alone, settings

SEEDS = range(400 if LONG else 40)
PARTITIONS = 2
LEASE_MS = 20_000
SESSION_MS = 6_000

Place = tuple[int, int]  # partition, offset


@dataclass
class Lent:
    """One handing out, as the consumer sees it."""

    place: Place
    receipt: str
    owner: str
    until_ms: int
    batch: int
    member: Heard | None = None
    is_loose: bool = False  # may be somebody else's: its owner is gone, or its answer is not known

    def is_sure(self, now_ms: int) -> bool:
        """Nobody else may have it."""
        is_in = self.member is None or self.member.is_in(now_ms)
        return not self.is_loose and is_in and self.until_ms > now_ms


@dataclass
class Ledger:
    """What one group was told."""

    live: dict[Place, Lent] = field(default_factory=dict)
    old: list[str] = field(default_factory=list)  # receipts that are surely over
    over: set[Place] = field(default_factory=set)  # acked, rejected or passed, and answered so
    acked: set[Place] = field(default_factory=set)
    unsure: set[Place] = field(default_factory=set)  # perhaps: the power went, or a time passed
    seen: Counter[Place] = field(default_factory=Counter)
    resets: int = 0


class Heard:
    """A member of a group, which takes from it what it holds when it was not heard of for a session."""

    def __init__(self, name: str, session_ms: int) -> None:
        self.name, self.session_ms = name, session_ms
        self.heard_ms = 0

    def is_in(self, now_ms: int) -> bool:
        """The group still has it, surely."""
        return now_ms < self.heard_ms + self.session_ms - 100


class Member(Heard):
    """A REST member that does as it is told."""

    def __init__(self, group: str, name: str, mode: Mode) -> None:
        super().__init__(name, SESSION_MS)
        self.group, self.mode = group, mode
        self.generation = -1
        self.lost = False  # partitions, in its last heartbeat

    async def join(self, broker: Broker) -> None:
        request = RestJoin(
            self.group, self.name, "unused", "client", ("t",), "cooperative", session_ms=SESSION_MS, mode=self.mode
        )
        joined = await broker.consuming.join(request, MemberReading(auto_commit=False))
        self.generation = joined.generation

    async def poll(self, broker: Broker, limit: int, wait_ms: int) -> list[Delivered]:
        polled = await broker.consuming.poll(Poll(self.group, self.name, self.generation, limit, wait_ms))
        self.generation = polled.generation
        return list(polled.messages)

    async def beat(self, broker: Broker) -> None:
        beat = await broker.consuming.heartbeat(self.group, self.name, self.generation)
        self.generation = beat.generation
        self.lost = bool(beat.revoke)
        if beat.revoke:
            beat = await broker.consuming.revoke(self.group, self.name, self.generation, beat.revoke)
            self.generation = beat.generation


class World:
    """All choices, and all ledgers. Group `free` takes without members, `shared` and `parted` are REST groups."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.ordered = self.choose.random() < 0.4
        self.deliveries_max = self.choose.choice([0, 0, 4])
        self.config = {
            "queue.lease.ms": str(LEASE_MS),
            "queue.order": "key" if self.ordered else "none",
            "queue.max.deliveries": str(self.deliveries_max),
            "queue.expired.dead.letter": self.choose.choice(["true", "false"]),
            "queue.lanes": self.choose.choice(["weighted", "weighted", "strict"]),
        }
        self.commits = self.choose.choice([0, 1, 2])
        self.sent: dict[Place, InputMessage] = {}
        self.unanswered = 0
        self.ledgers = {"free": Ledger(), "shared": Ledger(), "parted": Ledger()}
        self.members: dict[str, list[Member]] = {"shared": [], "parted": []}
        self.batches = 0
        self.now_ms: Callable[[], int] = lambda: 0

    # --- moves -----------------------------------------------------------------------------------------------

    async def step(self, broker: Broker) -> None:
        moves: list[Callable[[Broker], Awaitable[None]]] = [
            self.publish, self.take, self.poll, self.answer, self.lie, self.wait, self.join, self.leave,
            self.fall_silent, self.commit, self.crowd, self.hang_up,
        ]  # fmt: skip
        await self.choose.choices(moves, [8, 10, 14, 14, 3, 4, 3, 1, 1, self.commits, 2, 2])[0](broker)
        self.check_positions(broker)

    async def publish(self, broker: Broker) -> None:
        partition = self.choose.randrange(PARTITIONS)
        messages = []
        for _ in range(self.choose.choice([1, 1, 3, 10])):
            key = self.choose.choice([None, b"a", b"b"])
            lane = 2 if self.ordered else self.choose.choice([0, 1, 2, 2, 2, 3, 4])
            headers = () if lane == 2 else (("goqueue-priority", str(lane).encode()),)
            ttl_ms = self.choose.choice([None] * 9 + [3_000])
            messages.append(InputMessage(key, b"x", headers, partition, ttl_ms=ttl_ms))
        self.unanswered += len(messages)
        results = await broker.publish.messages(PublishMessages("t", messages))
        for message, result in zip(messages, results, strict=True):
            if isinstance(result, StoredAt):
                self.sent[result.partition, result.offset] = message
                self.unanswered -= 1

    async def take(self, broker: Broker) -> None:
        await self.take_as(broker, f"c{self.choose.randrange(3)}", self.choose.choice([0, 0, 500]))

    async def take_as(self, broker: Broker, owner: str, wait_ms: int) -> None:
        places = [TopicPartition("t", number) for number in range(PARTITIONS)]
        limit = self.choose.choice([1, 2, 5, 50])
        lease_ms = self.choose.choice([None, 1_000, 5_000])
        found = await broker.leasing.take(Take("free", places, owner, limit, lease_ms, wait_ms, 60))
        assert len(found) <= limit
        self.got("free", owner, found, lease_ms or LEASE_MS)
        ledger = self.ledgers["free"]
        assert sum(one.owner == owner and one.is_sure(self.now_ms()) for one in ledger.live.values()) <= 60

    async def poll(self, broker: Broker) -> None:
        group = self.choose.choice(["shared", "parted"])
        if self.members[group]:
            await self.poll_as(broker, self.choose.choice(self.members[group]), self.choose.choice([0, 0, 700]))

    async def poll_as(self, broker: Broker, member: Member, wait_ms: int) -> None:
        try:
            member.lost = False
            if self.choose.random() < 0.3:  # a heartbeat beside the poll, as clients with two threads do
                found, _ = await asyncio.gather(member.poll(broker, 5, wait_ms), member.beat(broker))
            else:
                found = await member.poll(broker, self.choose.choice([1, 5, 50]), wait_ms)
            member.heard_ms = self.now_ms()
            self.got(member.group, member.name, found, LEASE_MS, member)
            lost = member.lost
            await member.beat(broker)
            if lost or member.lost:
                self.loosen(member.group, member.name)
        except (UnknownGroup, UnknownMember, IllegalGeneration):
            await self.enter(broker, member)

    async def enter(self, broker: Broker, member: Member) -> None:
        self.loosen(member.group, member.name)
        await member.join(broker)
        member.heard_ms = self.now_ms()

    async def crowd(self, broker: Broker) -> None:
        """Many at once, while something is published."""
        polls = [self.poll_as(broker, member, 300) for members in self.members.values() for member in members]
        takes = [self.take_as(broker, f"c{number}", 300) for number in range(3)]
        await asyncio.gather(*polls, *takes, self.publish(broker))

    async def hang_up(self, broker: Broker) -> None:
        """A poll whose caller goes away at any moment hands nothing out."""
        places = [TopicPartition("t", number) for number in range(PARTITIONS)]
        self.batches += 1
        owner = f"gone{self.batches}"
        polling = asyncio.ensure_future(broker.leasing.take(Take("free", places, owner, 5, None, 400)))
        for _ in range(self.choose.randrange(30)):
            await asyncio.sleep(0)
        if polling.done():
            self.got("free", owner, polling.result(), LEASE_MS)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        assert broker.leasing.in_flight("free", owner) == 0 or not polling.cancelled()

    async def join(self, broker: Broker) -> None:
        group = self.choose.choice(["shared", "parted"])
        if len(self.members[group]) < 3:
            name = f"{group}{self.choose.randrange(6)}"
            self.members[group] = [one for one in self.members[group] if one.name != name]
            member = Member(group, name, "shared" if group == "shared" else "partition")
            self.members[group].append(member)
            await self.enter(broker, member)

    async def leave(self, broker: Broker) -> None:
        group = self.choose.choice(["shared", "parted"])
        if self.members[group]:
            member = self.members[group].pop()
            self.loosen(group, member.name)
            with contextlib.suppress(UnknownGroup, UnknownMember):
                await broker.consuming.leave(group, member.name)

    async def fall_silent(self, broker: Broker) -> None:
        group = self.choose.choice(["shared", "parted"])
        if self.members[group]:
            self.loosen(group, self.members[group].pop().name)

    async def wait(self, broker: Broker) -> None:
        await asyncio.sleep(self.choose.choice([0.05, 1, 3, 8, 30]))

    async def commit(self, broker: Broker) -> None:
        """`free` says where it stands: ahead, or back."""
        at = TopicPartition("t", self.choose.randrange(PARTITIONS))
        ledger, end = self.ledgers["free"], self.end(at.partition)
        offset = self.choose.randint(max(0, end - 12), end)
        ledger.resets += 1
        perhaps = set(ledger.unsure)
        for place in self.places(at.partition):
            lent = ledger.live.pop(place, None)
            if lent is not None:
                ledger.old.append(lent.receipt) if place[1] < offset else None
            if place in ledger.over:
                perhaps.add(place)
            ledger.over.discard(place)
            ledger.acked.discard(place)
            ledger.unsure.add(place)
            ledger.seen[place] = 0
        request = CommitRequest("free", "", -1, None, [OffsetCommit("t", at.partition, offset)])
        await broker.consuming.commit(request)
        for place in self.places(at.partition):
            if place[1] < offset:
                ledger.over.add(place)
            if place not in perhaps:
                ledger.unsure.discard(place)

    # --- answers ---------------------------------------------------------------------------------------------

    async def answer(self, broker: Broker) -> None:
        group = self.choose.choice(list(self.ledgers))
        ledger = self.ledgers[group]
        sure = [one for one in ledger.live.values() if one.is_sure(self.now_ms() + 50)]
        chosen = self.choose.sample(sure, min(len(sure), self.choose.choice([1, 3, 20])))
        if not chosen:
            return
        kind = self.choose.choices(["ack", "nack", "nack0", "reject", "extend", "release"], [10, 2, 2, 1, 2, 2])[0]
        receipts = [one.receipt for one in chosen]
        for one in chosen:
            one.is_loose = True
            if kind in ("ack", "reject"):
                ledger.unsure.add(one.place)
        outcomes = await self.say(broker, kind, receipts)
        assert outcomes == [None] * len(chosen), f"{group}: {kind} of {chosen} at {self.now_ms()}: {outcomes}"
        for one in chosen:
            if kind == "extend":
                one.is_loose, one.until_ms = False, self.now_ms() + 9_000
                continue
            if ledger.live.get(one.place) is one:
                del ledger.live[one.place]
            ledger.old.append(one.receipt)
            if kind in ("ack", "reject"):
                ledger.over.add(one.place)
                ledger.unsure.discard(one.place)
            if kind == "ack":
                ledger.acked.add(one.place)

    async def say(self, broker: Broker, kind: str, receipts: list[str]) -> list[Outcome]:
        leasing = broker.leasing
        match kind:
            case "ack":
                return await leasing.ack(receipts)
            case "reject":
                return await leasing.reject(receipts, "no")
            case "extend":
                return await leasing.extend(receipts, 9_000)
            case "release":
                return await leasing.extend(receipts, 0)
            case _:
                return await leasing.nack(receipts, 0 if kind == "nack0" else None, "why")

    async def lie(self, broker: Broker) -> None:
        """Receipts that are over or made up do nothing."""
        for ledger in self.ledgers.values():
            if ledger.old:
                stale = self.choose.choice(ledger.old)
                topic, partition, offset, attempt, nonce = stale.rsplit(":", 4)
                forged = f"{topic}:{partition}:{int(offset) + 1}:{attempt}:{nonce}x"
                kind = self.choose.choice(["ack", "nack", "reject", "extend", "release"])
                outcomes = await self.say(broker, kind, [stale, forged])
                assert all(isinstance(one, StaleReceipt) for one in outcomes), outcomes

    def got(self, group: str, owner: str, found: list[Delivered], lease_ms: int, member: Heard | None = None) -> None:
        ledger = self.ledgers[group]
        self.batches += 1
        for one in found:
            place = (one.stored.partition, one.stored.offset)
            assert place not in ledger.over, f"{group} got {place} again, which was done"
            granted_ms = one.leased_until_ms - lease_ms
            before = ledger.live.get(place)
            if before is not None:
                assert not before.is_sure(granted_ms), f"{group} has {place} twice"
                ledger.old.append(before.receipt)
            message = self.sent.get(place)
            if message is not None and message.ttl_ms is not None:
                expires = int(dict(one.stored.headers)["goqueue-expires-at"] or b"0")
                assert granted_ms < expires, "too old"
            ledger.seen[place] += 1
            assert one.attempt >= ledger.seen[place], "an attempt was forgotten"
            assert not self.deliveries_max or one.attempt <= self.deliveries_max
            assert one.failures < 3
            ledger.live[place] = Lent(place, one.receipt, owner, one.leased_until_ms, self.batches, member)
            if self.ordered and one.stored.key is not None:
                self.check_order(ledger, one, granted_ms)

    def check_order(self, ledger: Ledger, one: Delivered, granted_ms: int) -> None:
        """Nobody else holds the key, and nothing of the key that came before is still to come; one that comes back may
        find those behind it with another."""
        place = (one.stored.partition, one.stored.offset)
        for other, message in self.sent.items():
            if other[0] != place[0] or message.key != one.stored.key or other == place:
                continue
            lent = ledger.live.get(other)
            comes_back = one.attempt > 1 and other[1] > place[1]
            if lent is not None and lent.batch != self.batches and not comes_back:
                assert not lent.is_sure(granted_ms), "two have one key"
            if other[1] < place[1] and message.ttl_ms is None and lent is None and not ledger.resets:
                waits = other not in ledger.over and other not in ledger.unsure and not ledger.seen[other]
                assert not waits, f"{other} should have come before {place}"

    # --- checks ----------------------------------------------------------------------------------------------

    def places(self, partition: int) -> list[Place]:
        """Also those whose publishing was not answered."""
        known = {*self.sent, *(place for ledger in self.ledgers.values() for place in ledger.seen)}
        return [place for place in sorted(known) if place[0] == partition]

    def end(self, partition: int) -> int:
        return max((offset + 1 for at, offset in self.sent if at == partition), default=0)

    def loosen(self, group: str, owner: str | None = None) -> None:
        for one in self.ledgers[group].live.values():
            if owner is None or one.owner == owner:
                one.is_loose = True

    def check_positions(self, broker: Broker) -> None:
        """A committed offset never passes a message that is surely open."""
        for group, ledger in self.ledgers.items():
            for at, committed in broker.groups.offsets(group).items():
                for place, message in self.sent.items():
                    if place[0] != at.partition or place[1] >= committed.offset or message.ttl_ms is not None:
                        continue
                    is_open = place not in ledger.over and place not in ledger.unsure
                    lent = ledger.live.get(place)
                    never = lent is None and not ledger.seen[place] and not ledger.resets
                    held = lent is not None and lent.is_sure(self.now_ms())
                    assert not (is_open and (never or held)), f"{group} at {committed.offset} passed {place}"

    # --- the end ---------------------------------------------------------------------------------------------

    async def drain(self, broker: Broker) -> None:
        """Everybody polls on and acks everything; in the end nothing is left."""
        modes: tuple[tuple[str, Mode], ...] = (("shared", "shared"), ("parted", "partition"))
        for group, mode in modes:
            if not self.members[group]:
                self.members[group] = [Member(group, f"{group}-last", mode)]
                await self.enter(broker, self.members[group][0])
        left, was_empty = dict.fromkeys(self.ledgers, -1), 0
        for _ in range(60):
            was_empty = was_empty + 1 if not any(left.values()) else 0
            await asyncio.sleep(3)
            everybody = [self.poll_as(broker, member, 0) for ones in self.members.values() for member in ones]
            await asyncio.gather(*everybody, self.take_as(broker, "c0", 0))
            for ledger in self.ledgers.values():
                mine = [one for one in ledger.live.values() if one.until_ms > self.now_ms() + 50]
                outcomes = await broker.leasing.ack([one.receipt for one in mine])
                for one, outcome in zip(mine, outcomes, strict=True):
                    if outcome is None:
                        ledger.over.add(one.place)
                        del ledger.live[one.place]
            counts = {group: broker.leasing.counts(group, "t") for group in self.ledgers}
            left = {group: one.ready + one.in_flight + one.waiting + one.dead for group, one in counts.items()}
            if was_empty >= 3 and not any(left.values()):
                break
        assert not any(left.values()), f"something waits for ever: {left}"

    async def check_all(self, broker: Broker) -> None:
        dead: Counter[tuple[str, Place]] = Counter()
        if broker.topics.find("t.dlq") is not None:
            for partition in range(PARTITIONS):
                for record in await self.read(broker, "t.dlq", partition):
                    told = {name: (value or b"").decode() for name, value in record.headers}
                    place = (int(told["goqueue-dlq-partition"]), int(told["goqueue-dlq-offset"]))
                    dead[told["goqueue-dlq-group"], place] += 1
        for group, ledger in self.ledgers.items():
            for place, message in self.sent.items():
                copies = dead[group, place]
                assert copies <= 1 + ledger.resets, f"{place} is {copies} times in the dead letters of {group}"
                assert not copies or ledger.resets or place not in ledger.acked, f"{place} is acked and dead"
                expired = message.ttl_ms is not None and self.config["queue.expired.dead.letter"] == "false"
                sure = place in ledger.over or place in ledger.unsure or copies or expired
                assert sure, f"{group} lost {place}"
            for at, committed in broker.groups.offsets(group).items():
                assert committed.offset == broker.topics.require("t").partition(at.partition).state.high_watermark

    async def read(self, broker: Broker, topic: str, partition: int) -> list[Record]:
        feed = broker.feeds.of(broker.topics.require(topic).partition(partition))
        return [record async for record in feed.everything(0)]


def live_once(world: World, disk: SimDisk, began_s: float, steps: int, fsync: str, is_last: bool) -> tuple[bool, float]:
    """One life of the broker, until it stops or the power goes; whether it went, and what time it is."""
    cut = False
    chosen = settings(fsync=fsync, fsync_interval_ms=200)

    async def scenario(loop: VirtualLoop) -> float:
        nonlocal cut
        loop._virtual.now_s = began_s
        gone = loop.create_future()

        def on_power_cut() -> None:
            nonlocal cut
            cut = True
            if not gone.done():
                gone.set_result(None)

        disk.on_power_cut = on_power_cut
        clock = VirtualClock(loop)
        world.now_ms = clock.now_ms

        async def life() -> None:
            broker = broker_alone(chosen, disk, clock, Dice(began_s))
            await broker.start()
            if broker.topics.find("t") is None:
                await broker.topics.create("t", PARTITIONS, world.config)
            for _ in range(steps):
                await world.step(broker)
            if is_last:
                await world.drain(broker)
                await asyncio.sleep(3)
                await world.check_all(broker)
            await broker.stop()

        living = asyncio.ensure_future(life())
        await asyncio.wait([living, gone], return_when=asyncio.FIRST_COMPLETED)
        if cut:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
        else:
            await living
        return loop.time()

    try:
        return cut, run_virtually(scenario)
    except PowerCut:
        assert cut
        return cut, began_s + 60


class Dice:
    """No two lives draw the same."""

    def __init__(self, began_s: float) -> None:
        self._chance = random.Random(began_s)

    def token(self, size: int) -> bytes:
        return self._chance.randbytes(size)


def live_on(world: World, seed: int, chance: random.Random) -> None:
    """Several lives on one disk, most of which end by a power cut."""
    fsync, modes = chance.choice([("always", ["kept", "dropped", "torn"]), ("interval", ["kept"])])
    disk, now_s = SimDisk(), 0.0
    for life in range(4):
        is_last = life == 3
        disk.crash_at = -1 if is_last or chance.random() < 0.3 else disk.steps + chance.randrange(5, 400)
        cut, now_s = live_once(world, disk, now_s, 60, fsync, is_last)
        if cut:
            mode: CrashMode = chance.choice(modes)  # type: ignore[arg-type]
            disk = disk.crash(mode, seed)
        now_s += chance.choice([0.1, 5, 100])


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_is_lost_doubled_or_stuck(seed: int) -> None:
    live_on(World(seed), seed, random.Random(seed + 1_000))
