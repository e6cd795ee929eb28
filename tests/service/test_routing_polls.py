"""Polls between processes of one machine: for a moment a member is answered with what the process itself leads."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.core.groups.errors import UnknownMember
from goqueue.core.groups.requests import RestJoin
from goqueue.service.consume import Consuming, Poll, PollResult
from goqueue.service.readers import MemberReading
from tests.service.nodes import Nodes, nodes_story
from tests.service.test_routing_leases import fill

KEEPER, NEAR = 1, 0  # the process that keeps the group, and the one that the member asks


class SharedMember:
    def __init__(self, nodes: Nodes, auto_commit: bool = False) -> None:
        self.group, self.nodes, self.generation = nodes.name_at(KEEPER), nodes, -1
        self.reading = MemberReading(auto_commit=auto_commit)
        for broker in nodes.brokers:
            broker.node.shard_map.is_one_machine = True

    @property
    def consuming(self) -> Consuming:
        return self.nodes.brokers[NEAR].routed(self.nodes.brokers[NEAR].consuming)

    async def join(self, mode: str = "shared") -> None:
        request = RestJoin(self.group, "m", "m", "client", ("t",), "cooperative", mode=mode)  # type: ignore[arg-type]
        self.generation = (await self.consuming.join(request, self.reading)).generation

    async def poll(self, limit: int = 1) -> tuple[PollResult, int]:
        """The answer, and how many calls between processes it took."""
        before = len(self.nodes.calls)
        found = await self.consuming.poll(Poll(self.group, "m", self.generation, limit, 0))
        calls = len(self.nodes.calls) - before
        await asyncio.sleep(0.02)  # what is asked beside it
        return found, calls


async def begun(nodes: Nodes, auto_commit: bool = False, mode: str = "shared") -> SharedMember:
    await fill(nodes, each=5)
    member = SharedMember(nodes, auto_commit)
    await member.join(mode)
    await member.poll()
    return member


def test_what_is_led_here_is_handed_out_without_asking_who_keeps_the_group() -> None:
    async def story(nodes: Nodes) -> None:
        member = await begun(nodes)
        here, taken = set(nodes.led_by(NEAR, "t")), 0
        while True:
            found, calls = await member.poll(2)
            if calls:
                break
            assert {run.at for run in found.runs} <= here
            taken += len(found.messages)
        assert taken >= 8  # of ten
        rest = [one for _ in range(20) for one in (await member.poll(2))[0].messages]
        everything = taken + len(found.messages) + len(rest) + 1
        assert everything == 30  # each once, wherever it is

    nodes_story(story)


def test_a_moment_later_the_keeper_is_asked_again_and_hears_that_the_member_lives() -> None:
    async def story(nodes: Nodes) -> None:
        member = await begun(nodes)
        assert (await member.poll())[1] == 0
        await asyncio.sleep(0.6)
        assert (await member.poll())[1] > 0

    nodes_story(story)


def test_a_member_that_is_gone_is_told_so_a_moment_later() -> None:
    async def story(nodes: Nodes) -> None:
        member = await begun(nodes)
        await member.consuming.leave(member.group, "m")
        await asyncio.sleep(0.6)
        with pytest.raises(UnknownMember):
            await member.poll()

    nodes_story(story)


@pytest.mark.parametrize(("auto_commit", "mode"), [(True, "shared"), (False, "partition")])
def test_who_commits_by_itself_or_has_partitions_of_its_own_always_asks(auto_commit: bool, mode: str) -> None:
    async def story(nodes: Nodes) -> None:
        member = await begun(nodes, auto_commit, mode)
        assert all([(await member.poll())[1] > 0 for _ in range(4)])

    nodes_story(story)
