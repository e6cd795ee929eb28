"""What all workloads have in common: clients that send, clients that take, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.clients import Client
from chaos.histories import CLIENTS, REPLICAS, Findings, merged
from chaos.ops import Op
from tests.cluster.clients import Cluster, read_all
from tests.waiting import has_come


class Workload:
    """Clients of one kind. `missing` is what takers have not seen yet of what is there for them."""

    name = ""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.seed = seed
        self.skew_ms = 0.0  # of a node's clock, at most, in this run
        self.senders: list[Client] = []
        self.takers: list[Client] = []
        self.topics: list[str] = []

    def start(self) -> None:
        for client in (*self.senders, *self.takers):
            client.start()

    def stop_senders(self) -> None:
        for client in self.senders:
            client.stop()

    def stop_takers(self) -> None:
        for client in self.takers:
            client.stop()

    def abandon(self) -> None:
        """Nobody waits for anybody."""
        for client in (*self.senders, *self.takers):
            client.stopping.set()

    def missing(self) -> Iterable[str]:
        return ()

    def ops(self) -> list[Op]:
        return [one for client in self.senders for one in client.ops.done]

    @property
    def progress(self) -> int:
        return sum(client.ops.acknowledged for client in self.senders)

    def check(self) -> Findings:
        return merged(self.broken(), {CLIENTS: self._failures(), REPLICAS: list(self._unequal())})

    def broken(self) -> Findings:
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """What the histories hold."""
        raise NotImplementedError

    def _failures(self) -> list[str]:
        clients = (*self.senders, *self.takers)
        return [f"{type(one).__name__}: {one.failure!r}" for one in clients if one.failure]

    def _unequal(self) -> Iterable[str]:
        for topic in self.topics:
            if not has_come(lambda topic=topic: len(contents(self.cluster, topic)) == 1):  # type: ignore[misc]
                yield f"{topic}: {[len(one) for one in contents(self.cluster, topic)]} bytes"

    def values(self, topic: str) -> list[str]:
        """As a reader of committed data gets them, which is what the C client is unless it is told otherwise."""
        return [value.decode() for _, value in read_all(self.cluster, topic)]


def contents(cluster: Cluster, topic: str) -> set[bytes]:
    """Of all logs of a topic on each node's disk."""
    found = set()
    for node in cluster.nodes:
        files = sorted((node.data_dir / "logs" / topic).glob("*/*.log"))
        if files:
            found.add(b"".join(path.read_bytes() for path in files))
    return found
