"""What happens to a simulated cluster: a seeded series of faults, each over after a while."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from goqueue.base.ids import Position
from goqueue.format.batch import PREFIX_BYTES, strides
from goqueue.log.segment import Segment
from goqueue.sim.cluster import STORE_S, SimCluster, SimNode
from goqueue.sim.disk import CrashMode
from goqueue.sim.moves import SimMoves

Fault = Callable[[], Awaitable[None]]
_HEALED_S: Final = 4.0
LOSSES: Final[tuple[CrashMode, ...]] = ("kept", "dropped", "torn")


class Faults:
    """One after the other, now and then two at once. `told` is what happened, for who looks at a seed."""

    def __init__(self, cluster: SimCluster, seed: int) -> None:
        self.told: list[str] = []
        self._cluster = cluster
        self._chance = random.Random(seed)
        self._disks = self._bits = 1
        self._moves = SimMoves(cluster, self._chance, self._tell)
        self._power_cuts = cluster.plan.nodes if cluster.plan.fsync == "always" else 1

    async def run(self, for_s: float) -> None:
        until = self._cluster.loop.time() + for_s
        while self._cluster.loop.time() < until:
            await asyncio.sleep(self._chance.uniform(0.2, 3.0))
            fault = self._chance.choice(self._kinds())
            if self._chance.random() < 0.2:
                await asyncio.gather(fault(), self._chance.choice(self._kinds())())
            else:
                await fault()
        await self.heal()

    def _kinds(self) -> list[Fault]:
        cuts = [self._cut_off, self._cut_one_way, self._slow]
        store = [self._lose_store, self._lose_session, self._slow_store, self._lose_answers, self._hide_changes]
        store.append(self._miss_two_leaders)
        nodes = [self._kill, self._kill, self._stop, self._pause, self._lose_disk, self._fill_disk]
        nodes += [self._cut_power] * (2 if self._power_cuts else 0)
        nodes += [self._fail_over_twice, self._come_back_slowly, self._slow_disk, self._flip_bit]
        if self._cluster.plan.fsync == "always":
            nodes.append(self._cut_all_power)
        moves = self._moves
        moving = [moves.move, moves.move, moves.move, moves.rebalance, moves.cancel, moves.leave]
        return [*nodes, *cuts, *store, *(moving if self._cluster.plan.has_moves else ())]

    async def heal(self) -> None:
        self._cluster.network.cut.clear()
        self._cluster.network.delay_s = (0.0002, 0.002)
        for node in self._cluster.nodes:
            node.resume()
            node.disk_s = 0.0
            node.disk.free_space()
            if not node.is_up:
                node.start()
            if node.client is not None:
                node.client.is_cut_off = node.client.loses_answers = False
                node.client.delay_s = STORE_S
                node.client.show()
        if self._cluster.plan.has_moves:
            await self._moves.end()

    def _any(self) -> SimNode:
        return self._chance.choice(self._cluster.nodes)

    def _tell(self, what: str) -> None:
        self.told.append(f"{self._cluster.loop.time():8.3f} {what}")
        self._cluster.note(what)

    # --- kinds -----------------------------------------------------------------------------------------------

    async def _kill(self) -> None:
        node = self._any()
        if not node.is_up:
            return
        self._tell(f"kill {node.number}")
        node.kill()
        await asyncio.sleep(self._chance.choice((0.05, 0.5, 4.0)))
        self._start(node)

    async def _stop(self) -> None:
        node = self._any()
        if node.is_ready and not node.is_paused:
            self._tell(f"stop {node.number}")
            await node.stop()
            await asyncio.sleep(self._chance.choice((0.05, 0.5, 4.0)))
            self._start(node)

    async def _pause(self) -> None:
        """For shorter and for longer than a session."""
        node = self._any()
        if not node.is_up or node.is_paused:
            return
        self._tell(f"{node.number} stands still")
        node.pause()
        await asyncio.sleep(self._chance.choice((0.3, 2.0, 5.0)))
        self._tell(f"{node.number} goes on")
        node.resume()

    async def _fill_disk(self) -> None:
        node = self._any()
        disk = node.disk
        self._tell(f"the disk of {node.number} is full")
        disk.full_at = disk.space_calls
        await asyncio.sleep(self._chance.uniform(0.2, 4.0))
        self._tell(f"the disk of {node.number} has room")
        disk.free_space()
        node.disk.free_space()

    async def _cut_power(self) -> None:
        """Without syncs one machine at a time: two that lose their tails may lose what was acknowledged."""
        node = self._any()
        if not node.is_up or not self._power_cuts:
            return
        self._power_cuts -= 1
        loss = self._chance.choice(LOSSES)
        self._tell(f"power cut at {node.number}, {loss}")
        node.kill(power_cut=loss)
        await asyncio.sleep(self._chance.choice((0.05, 0.3, 1.0, 4.0)))
        await self._start_slowly(node)

    async def _cut_all_power(self) -> None:
        """While their disks are slow: what was acknowledged was on them."""
        self._tell("power cut everywhere")
        for node in self._cluster.nodes:
            node.disk_s = self._chance.uniform(0.0, 0.1)
        await asyncio.sleep(self._chance.uniform(0.1, 0.5))
        for node in self._cluster.nodes:
            node.disk_s = 0.0
            if node.is_up:
                node.kill(power_cut=self._chance.choice(LOSSES))
        for node in self._cluster.nodes:
            await asyncio.sleep(self._chance.uniform(0.0, 0.5))
            self._start(node)

    async def _slow_disk(self) -> None:
        node = self._any()
        self._tell(f"the disk of {node.number} is slow")
        node.disk_s = self._chance.uniform(0.005, 0.2)
        await asyncio.sleep(self._chance.uniform(0.5, 3.0))
        node.disk_s = 0.0

    async def _flip_bit(self) -> None:
        """In what was written a while ago, while the others have everything."""
        if not self._bits or not await self._is_healed_soon():
            return
        node = self._any()
        if node.broker is None:
            return
        logs = [one.log for topic in node.broker.table.all() if not topic.is_internal for one in topic.partitions]
        sealed = [segment for log in logs for segment in log.segments[:-1] if segment.seal and segment.length]
        if sealed:
            self._bits -= 1
            segment = self._chance.choice(sealed)
            self._tell(f"a bit of {segment.path('.log')} is flipped on {node.number}")
            node.is_damaged = True
            place, bit = self._chance.randrange(segment.length), self._chance.randrange(8)
            if not _misleads(segment, place):
                node.disk.flip_bit(segment.path(".log"), place, bit)
                return
            node.kill()
            node.disk.flip_bit(segment.path(".log"), place, bit)
            await asyncio.sleep(self._chance.uniform(0.1, 1.0))
            self._start(node)

    async def _fail_over_twice(self) -> None:
        """Whoever leads after the first change goes too, before everybody has heard of it."""
        self._tell("two leaders in a row")
        self._cluster.network.delay_s = (0.01, 0.1)
        shard = self._chance.randrange(self._cluster.plan.shards)
        for _ in range(2):
            await asyncio.sleep(self._chance.uniform(0.1, 1.5))
            leader = self._leader_of(shard)
            if leader is not None and leader.is_up:
                self._tell(f"kill {leader.number}")
                leader.kill()
                await asyncio.sleep(self._chance.choice((0.05, 0.3, 3.0)))
                self._start(leader)
        self._cluster.network.delay_s = (0.0002, 0.002)

    def _leader_of(self, shard: int, but: SimNode | None = None) -> SimNode | None:
        """As any node knows it, but for one that hears of nothing."""
        living = (node for node in self._cluster.nodes if node is not but)
        ready = next((node.broker for node in living if node.broker is not None and node.is_ready), None)
        leader = -1 if ready is None else ready.metadata.image.shard(shard).leader
        return self._cluster.nodes[leader] if leader >= 0 else None

    async def _come_back_slowly(self) -> None:
        """What it missed takes a while to get to it."""
        node = self._any()
        if not node.is_up:
            return
        self._tell(f"kill {node.number}, which comes back over a slow network")
        node.kill()
        await asyncio.sleep(self._chance.uniform(2.0, 4.0))
        await self._start_slowly(node)

    async def _start_slowly(self, node: SimNode) -> None:
        self._cluster.network.delay_s = (0.05, 0.5)
        self._start(node)
        await asyncio.sleep(self._chance.uniform(1.0, 3.0))
        self._cluster.network.delay_s = (0.0002, 0.002)

    async def _lose_disk(self) -> None:
        """Of one machine, while the others have everything."""
        if not self._disks or not await self._is_healed_soon():
            return
        self._disks -= 1
        node = self._any()
        self._tell(f"{node.number} loses its disk")
        node.kill()
        node.lose_disk()
        await asyncio.sleep(self._chance.uniform(0.1, 4.0))
        self._start(node)

    async def _is_healed_soon(self) -> bool:
        with suppress(TimeoutError):
            await self._cluster.until(lambda: self._cluster.is_healed, _HEALED_S)
        return self._cluster.is_healed

    def _start(self, node: SimNode) -> None:
        if not node.is_up:
            self._tell(f"start {node.number}")
            node.start()

    async def _cut_off(self) -> None:
        number = self._any().number
        others = [one.number for one in self._cluster.nodes]
        pairs = {(one, number) for one in others} | {(number, one) for one in others}
        self._tell(f"cut off {number}")
        await self._cut(pairs)

    async def _cut_one_way(self) -> None:
        source, target = self._any().number, self._any().number
        self._tell(f"cut {source} to {target}")
        await self._cut({(source, target)})

    async def _cut(self, pairs: set[tuple[int, int]]) -> None:
        self._cluster.network.cut |= pairs
        await asyncio.sleep(self._chance.uniform(0.3, 6.0))
        self._cluster.network.cut -= pairs

    async def _lose_store(self) -> None:
        node = self._any()
        client = node.client
        if client is not None:
            self._tell(f"no store for {node.number}")
            client.is_cut_off = True
            await asyncio.sleep(self._chance.uniform(0.3, 2.0))
            if node.client is client:
                client.is_cut_off = False

    async def _lose_session(self) -> None:
        node = self._any()
        if node.client is not None:
            self._tell(f"the session of {node.number} ends")
            node.client.lose_sessions()

    async def _slow_store(self) -> None:
        if (client := self._any().client) is not None:
            self._tell("slow store")
            client.delay_s = self._chance.uniform(0.05, 0.5)
            await asyncio.sleep(self._chance.uniform(0.5, 3.0))
            client.delay_s = STORE_S

    async def _lose_answers(self) -> None:
        """What a node commits is done, and it does not hear of it."""
        node = self._any()
        if (client := node.client) is not None:
            self._tell(f"the store's answers to {node.number} are lost")
            client.loses_answers = True
            await asyncio.sleep(self._chance.uniform(0.3, 2.0))
            client.loses_answers = False

    async def _hide_changes(self) -> None:
        node = self._any()
        if (client := node.client) is not None:
            self._tell(f"{node.number} hears of no changes in the store")
            client.watches_stale = True
            await asyncio.sleep(self._chance.uniform(0.3, 2.0))
            client.show()

    async def _miss_two_leaders(self) -> None:
        """A follower hears neither that its leader lost a shard nor that it has it again."""
        shard = self._chance.randrange(self._cluster.plan.shards)
        leader = self._leader_of(shard)
        node = self._chance.choice([one for one in self._cluster.nodes if one is not leader])
        if leader is None or (client := node.client) is None:
            return
        self._tell(f"{node.number} hears of no changes in the store, and shard {shard} is led by others")
        client.watches_stale = True
        for _ in range(2):
            if (leader := self._leader_of(shard, but=node)) is not None and leader.client is not None:
                self._tell(f"the session of {leader.number} ends")
                leader.client.lose_sessions()
            await asyncio.sleep(self._chance.uniform(0.2, 1.0))
        client.show()

    async def _slow(self) -> None:
        self._tell("slow network")
        self._cluster.network.delay_s = (0.01, 0.3)
        await asyncio.sleep(self._chance.uniform(0.5, 3.0))
        self._cluster.network.delay_s = (0.0002, 0.002)


def _misleads(segment: Segment, place: Position) -> bool:
    """Whether it is in a batch's offset or length, which a reader cannot check: one of a node that runs gets that batch
    until the scrubber has been there (docs/cluster.md says so). So these flip while the node is down."""
    data = segment.file().read(0, segment.length)
    return next((place < at + PREFIX_BYTES for at, end, _, _ in strides(data) if place < end), True)
