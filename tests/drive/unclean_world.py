"""A shard on three nodes that may get leaders which lack something, as a random walk over the real drivers and logs.

Messages are delayed, lost and overtaken. What a node does off its loop (syncs, seals, dropped heads) begins and ends
when the walk says so. `Ledger` knows what must be there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from goqueue.base.ids import Offset
from goqueue.base.replication import ShardAnswer
from goqueue.core.cluster.elections import elected, led_by, needs_leader
from goqueue.core.cluster.records import NOBODY, NodeRecord
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop
from tests.drive.ledger import Ledger, Violation, bytes_of
from tests.drive.replicas import SHARD, SmallCluster, SmallLog, SmallNode
from tests.drive.unclean_nodes import Background, Flight

LENGTH_MAX: Final = 60  # of a log
FLIGHT_MAX: Final = 6
ANSWER_BYTES: Final = (1, 300, 1 << 20)
HEALED_ROUNDS: Final = 80
QUIET_ROUNDS: Final = 20  # of these, the last: nothing is told at once any more


class UncleanCluster(SmallCluster):
    fetches = False
    losses = ("dropped",)  # a torn one can leave damage, which is mended in other ways

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        super().__init__(loop, seed, logs=1 + seed % 2)
        self.segment_bytes = self.random.choice((200, 500, 2_000))
        self.minimum = self.random.choice((1, 2))
        self.failures: list[BaseException] = []
        self.is_healed = False
        self.ledger = Ledger(self)
        self.background: dict[int, Background] = {}
        self.flights: list[Flight] = []
        self.values = 0
        self.unclean = 0
        for node in self.nodes:
            self._start(node)
        self._put_elected()

    # --- steps ---------------------------------------------------------------------------------------------

    async def walk(self, steps: int) -> None:
        moves: list[tuple[Callable[[], Awaitable[None] | None], int]] = [
            (self._look, 12),
            (self._append, 12),
            (self._fetch, 24),
            (self._move_a_flight, 40),
            (self._sync, 12),
            (self._go_on, 16),
            (self._change_the_set, 10),
            (self._delete, 10),
            (self._retain, 4),
            (self._seal, 3),
            (self._lose, 2),
            (self._crash, 3),
            (self._restart, 8),
            (self._session_ends, 1),
            (self._session_begins, 4),
            (self._elect, 8),
            (self._elect_uncleanly, 7),
            (self._hand_over, 3),
            (self._calm, 12),
            (self._empty, 2),
            (self._begin_from_nothing, 1),
        ]
        for _ in range(steps):
            (move,) = self.random.choices([one for one, _ in moves], [weight for _, weight in moves])
            if (waits := move()) is not None:
                await waits
            await asyncio.sleep(self.random.choice((0, 0.01, 0.2)))
            await self._settle_tasks()
            self._check()
        await self._heal()

    async def _settle_tasks(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)

    def _check(self) -> None:
        if self.failures:
            raise self.failures[0]
        self.ledger.check()

    @property
    def _up(self) -> list[SmallNode]:
        return [node for node in self.nodes if node.is_up]

    def _some(self, nodes: list[SmallNode]) -> SmallNode | None:
        return self.random.choice(nodes) if nodes else None

    async def _look(self) -> None:
        if (node := self._some(self._up)) is not None:
            await self._look_as(node)

    async def _look_as(self, node: SmallNode) -> None:
        epoch = node.leads[SHARD].epoch if SHARD in node.leads else -1
        await node.look()
        if SHARD in node.leads and node.leads[SHARD].epoch != epoch:
            self.ledger.led(node)

    def _append(self) -> None:
        """Also by one that does not lead any more and has not heard of it."""
        key = self.random.choice(self.keys)
        node = self._some([one for one in self._up if SHARD in one.leads])
        if node is None or node.logs[key].end_offset - node.logs[key].start_offset > LENGTH_MAX:
            return
        for _ in range(self.random.choice((1, 1, 2, 4))):
            values = [f"v{self.values + number}" for number in range(self.random.choice((1, 1, 3)))]
            self.values += len(values)
            node.append(key, *values)
        self.ledger.appended(node, key)

    def _sync(self) -> None:
        if (node := self._some(self._up)) is not None:
            self.background[node.number].sync()

    def _go_on(self) -> None:
        if (node := self._some(self._up)) is not None:
            self.background[node.number].slow.go_on()

    def _change_the_set(self) -> None:
        if (node := self._some(self._up)) is not None:
            self.ask_for_change(node)

    def _delete(self) -> None:
        """Records up to an offset that may be read."""
        key = self.random.choice(self.keys)
        if (leader := self.ledger.leader) is None or not self.ledger.is_served(leader):
            return
        log = leader.logs[key]
        if log.high_watermark > log.start_offset:
            end = log.high_watermark
            to = end if self.random.random() < 0.7 else self.random.randint(log.start_offset + 1, end)
            self._delete_to(leader, log, to)

    def _delete_to(self, leader: SmallNode, log: SmallLog, to: Offset) -> None:
        self.ledger.deleted(log, to)
        self.background[leader.number].delete(log, to)

    def _retain(self) -> None:
        if (node := self._some(self._up)) is not None:
            log = node.logs[self.random.choice(self.keys)]
            if self.random.random() < 0.3 and log.log.segments:
                log.log.roll()
            self.background[node.number].retain(log, self.random.choice((1, 2, 100)))

    def _seal(self) -> None:
        if (node := self._some(self._up)) is not None:
            background, log = self.background[node.number], node.logs[self.random.choice(self.keys)]
            background.slow.spawn(background.seal(log))

    async def _calm(self) -> None:
        """For a while everything goes as it should, perhaps for some nodes alone."""
        nodes = [node for node in self._up if self.random.random() < 0.8]
        bytes_max = self.random.choice(ANSWER_BYTES)
        for _ in range(self.random.randint(1, 5)):
            await self._one_round([node for node in nodes if node.is_up], bytes_max)

    async def _empty(self) -> None:
        """All that may be read is to go, once others have it too."""
        await self._calm()
        if (leader := self.ledger.leader) is not None and self.ledger.is_served(leader):
            for log in leader.logs.values():
                if log.high_watermark > log.start_offset:
                    self._delete_to(leader, log, log.high_watermark)
            await self._calm()

    async def _begin_from_nothing(self) -> None:
        """One that lost its disk leads; what others have is of another history, and longer perhaps."""
        if (chosen := self._some(self._up)) is not None:
            await self._kill(chosen)
            chosen.disk, chosen.disks = SimDisk(), chosen.disks + 1
            self._start(chosen)
            await self._elect_alone(chosen)
            await self._look_as(chosen)
            self._append()
            await self._empty()

    # --- nodes ---------------------------------------------------------------------------------------------

    def _start(self, node: SmallNode) -> None:
        background = self.background[node.number] = Background(self, node)
        node.drop_head = background.begin_at
        node.start()
        for log in node.logs.values():
            log.minimum = self.minimum

    async def _kill(self, node: SmallNode) -> None:
        self.background[node.number].slow.die()
        await self._settle_tasks()
        await node.crash(power_cut=self.random.random() < 0.5)
        if self.random.random() < 0.2:
            node.disk, node.disks = SimDisk(), node.disks + 1
        if self.random.random() < 0.7:
            self.living.pop(node.number, None)

    async def _crash(self) -> None:
        if (node := self._some(self._up)) is not None:
            await self._kill(node)

    def _restart(self) -> None:
        if (node := self._some([one for one in self.nodes if not one.is_up])) is not None:
            self._start(node)

    def _session_ends(self) -> None:
        if (node := self._some(self._up)) is not None:
            self.living.pop(node.number, None)

    def _session_begins(self) -> None:
        """Again, of one that lived on."""
        if (node := self._some([one for one in self._up if one.number not in self.living])) is not None:
            self.register(node.number, self._record_of(node))

    def _record_of(self, node: SmallNode) -> NodeRecord:
        return NodeRecord("", node.me.start, disk=f"disk {node.number}.{node.disks}")

    # --- controller ----------------------------------------------------------------------------------------

    def _elect(self) -> None:
        self._put_elected()

    def _put_elected(self) -> None:
        for number, found in self.living.items():
            self.admit(number, found)
        if needs_leader(self.record, self.living) and (record := elected(self.record, self.living)) is not None:
            self.put(record)

    async def _elect_uncleanly(self) -> None:
        """The sessions of all others are over, whether they live or not."""
        chosen = self._some([one for one in self._up if one.number in self.living])
        if chosen is None:
            return
        members = {*self.record.in_sync, *self.record.eligible}
        if chosen.number in members and self.random.random() < 0.8:
            return
        if chosen.number in members:  # as if it was started anew on another disk, or it is chosen cleanly
            await self._kill(chosen)
            if self.random.random() < 0.5:
                node_disk, chosen.disks = chosen.disk, chosen.disks + 1
                chosen.disk = SimDisk() if self.random.random() < 0.3 else node_disk
            self._start(chosen)
        await self._elect_alone(chosen)

    async def _elect_alone(self, chosen: SmallNode) -> None:
        for node in self.nodes:
            if node is not chosen:
                if node.is_up and self.random.random() < 0.5:
                    await self._kill(node)
                self.living.pop(node.number, None)
        living = {chosen.number: self.living[chosen.number]}
        if needs_leader(self.record, living) and (record := elected(self.record, living, unclean=True)) is not None:
            self.unclean += record.unclean > self.record.unclean
            self.put(record)

    def _hand_over(self) -> None:
        able = [one for one in self._up if self._may_lead(one) and one.number != self.record.leader]
        if (node := self._some(able)) is not None and self.record.leader != NOBODY:
            self.put(led_by(self.record, node.number, self.living))

    def _may_lead(self, node: SmallNode) -> bool:
        found = self.living.get(node.number)
        return found is not None and self.record.counts(node.number, found.incarnation)

    # --- network -------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """One at a time, as a rule; the one before may be given up."""
        node = self._some([one for one in self._up if SHARD in one.follows])
        if node is None or len(self.flights) > FLIGHT_MAX:
            return
        followed = node.follows[SHARD]
        if any(one.followed is followed for one in self.flights) and self.random.random() < 0.95:
            return
        self.flights.append(self._sent(node))

    def _sent(self, node: SmallNode) -> Flight:
        """One that names all logs is never overtaken: it would be taken for a newer one."""
        for one in [one for one in self.flights if one.by is node and one.heard is None and not one.asked.session]:
            self._end(one)
        return Flight(node, self.nodes[node.leader], node.follows[SHARD], node.follows[SHARD].ask())

    def _lose(self) -> None:
        if self.flights:
            self._end(self.random.choice(self.flights))

    def _end(self, flight: Flight) -> None:
        self.flights.remove(flight)
        if flight.heard is not None:
            flight.heard.end(self.clock.now_ms())

    def _move_a_flight(self) -> None:
        if not self.flights:
            return
        flight = self.random.choice(self.flights)
        if flight.is_lost:
            self._end(flight)
        elif flight.answer is not None:
            self._end(flight)
            self.take(flight)
        elif flight.heard is None:
            self.hear(flight)
        elif flight.heard.has_news() or self.random.random() < 0.2:
            self.tell(flight, self.random.choice(ANSWER_BYTES))

    def hear(self, flight: Flight) -> None:
        shard = flight.to.leads.get(SHARD)
        if shard is None:
            flight.answer = ShardAnswer(SHARD, "not_leader")
        else:
            flight.heard = shard.hear(flight.by.me, flight.asked, self.clock.now_ms())

    def tell(self, flight: Flight, bytes_max: int) -> None:
        assert flight.heard is not None
        is_led = flight.heard.shard is flight.to.leads.get(SHARD)
        flight.answer = flight.heard.answer(bytes_max) if is_led else ShardAnswer(SHARD, "not_leader")

    def take(self, flight: Flight) -> None:
        """As `ReplicaFetching` does."""
        answer, followed = flight.answer, flight.followed
        if answer is not None and not answer.refusal and flight.by.follows.get(SHARD) is followed:
            followed.take(flight.asked, answer)
            if followed.failure is not None:
                raise followed.failure

    # --- the end -------------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        self.is_healed = True
        for flight in list(self.flights):
            self._end(flight)
        for node in self.nodes:
            if not node.is_up:
                self._start(node)
            if node.number not in self.living:
                self.register(node.number, self._record_of(node))
        self._lead_somehow()
        for number in range(HEALED_ROUNDS):
            told_at_once = await self._one_round(self.nodes, 1 << 20)
            if told_at_once and number >= HEALED_ROUNDS - QUIET_ROUNDS:
                raise Violation("a follower is told something at once, again and again")
        self._check_equal()

    def _lead_somehow(self) -> None:
        """Nobody may be left who counts: all that was in sync is on disks that were lost."""
        self._put_elected()
        if self.record.leader == NOBODY:
            chosen = self.random.choice(self.nodes)
            record = elected(self.record, {chosen.number: self.living[chosen.number]}, unclean=True)
            assert record is not None
            self.put(record)

    async def _one_round(self, nodes: list[SmallNode], bytes_max: int) -> bool:
        """Whether anybody was told something at once."""
        for node in nodes:
            self.background[node.number].slow.go_on_with_all()
            if self.is_healed or self.random.random() < 0.8:
                await self._look_as(node)
            self.background[node.number].sync()
            self.ask_for_change(node)
        flights = [self._sent(node) for node in nodes if SHARD in node.follows]
        told_at_once = [self._go_there_and_back(one, bytes_max) for one in flights if not one.is_lost]
        await asyncio.sleep(0.05)
        await self._settle_tasks()
        self._check()
        return any(told_at_once)

    def _go_there_and_back(self, flight: Flight, bytes_max: int) -> bool:
        self.hear(flight)
        has_news = False
        if flight.heard is not None:
            has_news = flight.heard.has_news()
            self.tell(flight, bytes_max)
            flight.heard.end(self.clock.now_ms())
        self.take(flight)
        return has_news

    def _check_equal(self) -> None:
        if sorted(self.record.in_sync) != [0, 1, 2]:
            raise Violation(f"in sync are {self.record.in_sync} alone")
        for key in self.keys:
            leader = self.leader.logs[key]
            if leader.high_watermark != leader.end_offset:
                raise Violation(f"readers go to {leader.high_watermark} only, of {leader.end_offset}")
            for log in (node.logs[key] for node in self.nodes):
                if log.start_offset < leader.start_offset:
                    raise Violation(f"a follower begins at {log.start_offset}, not {leader.start_offset}")
                start = log.start_offset
                if bytes_of(log, start) != bytes_of(leader, start) or log.end_offset != leader.end_offset:
                    raise Violation("replicas differ")
