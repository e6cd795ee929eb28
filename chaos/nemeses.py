"""What is done to a cluster on purpose. Each fault begins by a seed, with a word about what it is, and ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from signal import SIGSTOP
from typing import Final

from chaos.faulty_node import DiskFaults
from chaos.field import ETCD, NODES, SPARE, Field, find_faketime, no_disks
from chaos.memory import MemoryLimit, no_memory_limits
from chaos.netlab import no_lab
from chaos.operator import Operator
from chaos.slow_link import LinkQuality

_HOUR_S: Final = 3_600.0


class Nemesis:
    """`begin` says what it did. `end` undoes what starting processes and healing the network does not."""

    name = ""
    is_alone = False  # whether nothing else may be wrong meanwhile

    def __init__(self, field: Field, chance: random.Random) -> None:
        self.field = field
        self.chance = chance

    @staticmethod
    def unavailable() -> str:
        """Why it cannot be had here."""
        return ""

    def begin(self) -> str:
        raise NotImplementedError

    def end(self) -> None:
        pass

    def node(self) -> int:
        return self.chance.choice([one for one in self.field.cluster.running if one < NODES])


class Kill(Nemesis):
    """`kill -9` of a node."""

    name = "kill"

    def begin(self) -> str:
        node = self.node()
        self.field.cluster.kill(node)
        return f"node {node} is killed"


class Pause(Nemesis):
    """SIGSTOP of a node: it stands still, its connections stay, and it does not know afterwards."""

    name = "pause"

    def begin(self) -> str:
        node = self.node()
        self.field.cluster.pause(node)
        return f"node {node} stands still"


class _Network(Nemesis):
    @staticmethod
    def unavailable() -> str:
        return no_lab()

    def cut(self, sender: int, receiver: int) -> None:
        assert self.field.lab is not None
        self.field.lab.cut(sender, receiver)

    def part(self, some: set[int], others: set[int]) -> None:
        assert self.field.lab is not None
        self.field.lab.part(some, others)

    @property
    def everybody(self) -> set[int]:
        return {*range(NODES), *self.field.etcd_hosts}


class Cut(_Network):
    """Both ways: two nodes, a node and the store, a node and everybody, or a rack and the others. Clients reach all."""

    name = "cut"

    def begin(self) -> str:
        ways: list[Callable[[], str]] = [self._pair, self._store, self._node, self._rack]
        return self.chance.choice(ways)()

    def _pair(self) -> str:
        one, other = self.chance.sample(range(NODES), 2)
        self.part({one}, {other})
        return f"nodes {one} and {other} are cut from each other"

    def _store(self) -> str:
        node = self.node()
        self.part({node}, set(self.field.etcd_hosts))
        return f"node {node} is cut from the store"

    def _node(self) -> str:
        node = self.node()
        self.part({node}, self.everybody - {node})
        return f"node {node} is cut from everybody"

    def _rack(self) -> str:
        node = self.node()
        rack = {node, self.field.etcd_hosts[node]}
        self.part(rack, self.everybody - rack)
        return f"the rack of node {node} and etcd {node} is cut from the others"


class CutOneWay(_Network):
    """What one sends is lost, what it is sent comes."""

    name = "cut-one-way"

    def begin(self) -> str:
        return self.chance.choice([self._pair, self._store, self._node])()

    def _pair(self) -> str:
        one, other = self.chance.sample(range(NODES), 2)
        self.cut(one, other)
        return f"node {one} does not reach node {other}"

    def _store(self) -> str:
        node = self.node()
        is_deaf = self.chance.random() < 0.5
        for member in self.field.etcd_hosts:
            self.cut(member, node) if is_deaf else self.cut(node, member)
        return f"node {node} does not hear the store" if is_deaf else f"node {node} does not reach the store"

    def _node(self) -> str:
        node = self.node()
        for other in self.everybody - {node}:
            self.cut(node, other)
        return f"node {node} reaches nobody"


class SlowNetwork(_Network):
    """Delay, jitter and loss: of one node, or between all."""

    name = "slow-network"

    def begin(self) -> str:
        assert self.field.lab is not None
        delay_s = self.chance.choice([0.02, 0.1, 0.3])
        quality = LinkQuality(delay_s, delay_s / 2, self.chance.choice([0.0, 0.02, 0.1]))
        slow = self.everybody if self.chance.random() < 0.4 else {self.node()}
        for one in slow:
            for other in self.everybody - {one}:
                self.field.lab.slow(one, other, quality)
                self.field.lab.slow(other, one, quality)
        who = "all hosts" if len(slow) > 1 else f"node {min(slow)}"
        return f"packets of {who} are {delay_s * 1000:.0f} ms late, {quality.loss:.0%} lost"


class Clock(Nemesis):
    """A node's clock is wrong: by less than `cluster.clock_skew_ms`, or by an hour for less than ten seconds."""

    name = "clock"
    is_alone = True

    @staticmethod
    def unavailable() -> str:
        return "" if find_faketime() else "a wrong clock needs libfaketime: apt-get install libfaketime"

    def begin(self) -> str:
        self._node = self.node()
        offset_s = self.chance.choice([-0.4, 0.4, -_HOUR_S, _HOUR_S])
        self.field.set_clock(self._node, offset_s)
        if abs(offset_s) < 1:
            self.field.skew_ms = max(self.field.skew_ms, abs(offset_s) * 1000)
        return f"the clock of node {self._node} is set by {offset_s:+g} s"

    def end(self) -> None:
        self.field.set_clock(self._node, 0.0)


class DiskFull(Nemesis):
    """A disk takes not a byte more."""

    name = "disk-full"

    @staticmethod
    def unavailable() -> str:
        return no_disks()

    def begin(self) -> str:
        self._node = self.chance.randrange(NODES)
        self.field.fill_disk(self._node)
        return f"the disk of node {self._node} is full"

    def end(self) -> None:
        self.field.empty_disk(self._node)


class SlowDisk(Nemesis):
    """Each write and each sync of a node takes longer."""

    name = "slow-disk"

    def begin(self) -> str:
        self._node = self.chance.randrange(NODES)
        delay_s = self.chance.choice([0.01, 0.05, 0.25])
        self.field.set_disk(self._node, DiskFaults(delay_s=delay_s))
        return f"writes of node {self._node} take {delay_s * 1000:.0f} ms longer"

    def end(self) -> None:
        self.field.set_disk(self._node, DiskFaults())


class IoErrors(Nemesis):
    """Writes and syncs of a node fail with EIO, all or some. It is started again afterwards, as the runbook says."""

    name = "io-errors"

    def begin(self) -> str:
        self._node = self.chance.randrange(NODES)
        chance = self.chance.choice([0.2, 1.0])
        self.field.set_disk(self._node, DiskFaults(error_chance=chance))
        return f"{chance:.0%} of the writes of node {self._node} fail"

    def end(self) -> None:
        self.field.set_disk(self._node, DiskFaults())
        self.field.cluster.kill(self._node)


class Memory(Nemesis):
    """A node gets hardly any more memory; where the kernel ends it for that, it is started again."""

    name = "memory"

    @staticmethod
    def unavailable() -> str:
        return no_memory_limits()

    def begin(self) -> str:
        node, more_mb = self.node(), self.chance.choice([1, 4, 16])
        self._limit = MemoryLimit(self.field.cluster.nodes[node].pid, more_mb << 20)
        return f"node {node} gets {more_mb} MiB more memory at most"

    def end(self) -> None:
        self._limit.lift()


class EtcdLoss(Nemesis):
    """Members of etcd are killed or stand still, sometimes most of them."""

    name = "etcd"

    def begin(self) -> str:
        members = self.field.cluster.etcd
        count = self.chance.choice([1, 1, ETCD - 1]) if len(members) == ETCD else 1
        chosen = self.chance.sample(range(len(members)), count)
        is_kill = self.chance.random() < 0.5
        for one in chosen:
            if members[one].is_running:
                members[one].kill() if is_kill else members[one].signal(SIGSTOP)
        return f"etcd {', '.join(map(str, sorted(chosen)))} {'killed' if is_kill else 'standing still'}"


class RollingRestart(Nemesis):
    """All nodes, one after the other, each when the others say that it may go."""

    name = "rolling-restart"
    is_alone = True

    def begin(self) -> str:
        for number in self.field.cluster.running:
            Operator(self.field.cluster).restart(number)
            self.field.cluster.wait_whole()
        return "all nodes were started again, one after the other"


class Scale(Nemesis):
    """A fourth node joins and gets its share; afterwards it gives everything back and leaves."""

    name = "scale"
    is_alone = True

    def begin(self) -> str:
        assert self.field.cluster.add() == SPARE
        Operator(self.field.cluster).move(rebalance=True)
        return f"node {SPARE} joined and took its share"

    def end(self) -> None:
        Operator(self.field.cluster).take_out(SPARE)
        self.field.cluster.nodes.pop()


_ALL: Final[tuple[type[Nemesis], ...]] = (
    Kill,
    Pause,
    Cut,
    CutOneWay,
    SlowNetwork,
    Clock,
    DiskFull,
    SlowDisk,
    IoErrors,
    Memory,
    EtcdLoss,
    RollingRestart,
    Scale,
)
NEMESES: Final[dict[str, type[Nemesis]]] = {one.name: one for one in _ALL}
