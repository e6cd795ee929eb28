"""Members that come, go, crash and poll in any order, in virtual time: every message is handed out at least once."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from goqueue.broker import Broker
from goqueue.core.groups.errors import UnknownMember
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on
from tests.service.members import Member, put

PARTITIONS = 5


class World:
    """A broker that restarts now and then, its members, what was sent and what came out."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.members: list[Member] = []
        self.sent: list[str] = []
        self.got: list[str] = []
        self.style = self.choose.choice(["cooperative", "eager"])

    async def step(self, broker: Broker) -> None:
        move = self.choose.choices(
            [self.publish, self.join, self.leave, self.crash, self.poll, self.wait], [6, 2, 1, 1, 12, 3]
        )[0]
        await move(broker)

    async def publish(self, broker: Broker) -> None:
        value = str(len(self.sent))
        await put(broker, value, partition=self.choose.randrange(PARTITIONS))
        self.sent.append(value)

    async def join(self, broker: Broker) -> None:
        if len(self.members) < 6:
            member = Member(broker, f"m{self.choose.randrange(100)}", style=self.style)
            member.session_ms = 10_000
            self.members = [one for one in self.members if one.name != member.name]
            self.members.append(await member.join())

    async def leave(self, broker: Broker) -> None:
        if self.members:
            member = self.members.pop(self.choose.randrange(len(self.members)))
            with contextlib.suppress(UnknownMember):  # its session may have ended before
                await member.leave()

    async def crash(self, broker: Broker) -> None:
        if self.members:
            self.members.pop(self.choose.randrange(len(self.members)))

    async def poll(self, broker: Broker) -> None:
        if self.members:
            await self.poll_one(self.choose.choice(self.members), self.choose.choice([0, 100, 7_000]))

    async def poll_one(self, member: Member, wait_ms: int) -> None:
        try:
            self.got += await member.poll(wait_ms, self.choose.choice([1, 3, 100]))
            await member.beat()
        except UnknownMember:
            await member.join()

    async def wait(self, broker: Broker) -> None:
        await asyncio.sleep(self.choose.choice([0.1, 1, 6, 12]))

    async def drain(self, broker: Broker) -> None:
        """Who is left reads to the end, once the sessions of the crashed are over."""
        await self.join(broker)
        for _ in range(20):
            await asyncio.gather(*(self.poll_one(member, 0) for member in self.members))
            await asyncio.sleep(2)
        before = -1
        while before < len(self.got):
            before = len(self.got)
            for _ in range(3):
                await asyncio.gather(*(self.poll_one(member, 0) for member in self.members))


@pytest.mark.parametrize("seed", range(60))
def test_every_message_is_handed_out_and_nobody_shares_a_partition(seed: int) -> None:
    async def run(loop: VirtualLoop) -> None:
        disk, world = SimDisk(), World(seed)
        for round_ in range(3):
            async with broker_on(disk, loop) as broker:
                if round_ == 0:
                    await broker.topics.create("t", PARTITIONS, {})
                for member in world.members:
                    member.broker = broker
                for _ in range(60):
                    await world.step(broker)
                if round_ == 2:
                    await world.drain(broker)
                owned = [at for member in world.members for at in member.partitions]
                assert len(owned) == len(set(owned)) or round_ < 2
        assert sorted(owned) == list(range(PARTITIONS))
        assert set(world.got) == set(world.sent)

    run_virtually(run)
