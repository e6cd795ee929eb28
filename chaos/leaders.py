"""Who leads which shard, looked up all the while at every node, and whether that can be."""

from __future__ import annotations

import threading
import time
from typing import Final, NamedTuple

import httpx

from chaos.histories import LEADERS, Findings
from tests.cluster.clients import Cluster

_LOOK_S: Final = 0.5


class Led(NamedTuple):
    """`leader` is None while nobody leads."""

    at: float
    shard: int
    leader: int | None


class LeaderWatch:
    """Until it is stopped. `changes` has an entry whenever a shard's leader is another one than before."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._of_epoch: dict[tuple[int, int], int] = {}
        self._last: dict[int, int | None] = {}
        self._newest = -1  # revision of the store that a node told of
        self._seen: dict[tuple[int, int], int] = {}  # (node, shard) to the last epoch that it told of
        self.changes: list[Led] = []
        self.looks = 0
        self.wrong: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)

    def check(self) -> Findings:
        return {LEADERS: self.wrong}

    def _run(self) -> None:
        with httpx.Client(timeout=1.0) as client:
            while not self._stopping.wait(_LOOK_S):
                for node in list(self._cluster.nodes):
                    self._ask(client, node.url)

    def _ask(self, client: httpx.Client, url: str) -> None:
        try:
            answer = client.get(f"{url}/cluster/state")
        except httpx.HTTPError:
            return
        if answer.is_success:
            self.saw(answer.json())

    def saw(self, state: dict[str, object]) -> None:
        """As one node told it."""
        self.looks += 1
        node, revision, shards = state["node"], state["revision"], state["shards"]
        assert isinstance(node, int) and isinstance(revision, int) and isinstance(shards, list)
        for one in shards:
            self._compare(node, one["shard"], one["epoch"], one["leader"])
        if revision >= self._newest:
            self._newest = revision
            self._note({one["shard"]: one["leader"] for one in shards})

    def _compare(self, node: int, shard: int, epoch: int, leader: int | None) -> None:
        if leader is not None and self._of_epoch.setdefault((shard, epoch), leader) != leader:
            self.wrong.append(f"shard {shard}, epoch {epoch}: nodes {self._of_epoch[shard, epoch]} and {leader} lead")
        if epoch < self._seen.get((node, shard), 0):
            self.wrong.append(f"shard {shard}: node {node} went back from epoch {self._seen[node, shard]} to {epoch}")
        self._seen[node, shard] = epoch

    def _note(self, leaders: dict[int, int | None]) -> None:
        now = time.monotonic()
        for shard, leader in leaders.items():
            if shard not in self._last or self._last[shard] != leader:
                self._last[shard] = leader
                self.changes.append(Led(now, shard, leader))
