"""What an operator does to a cluster, over REST, as docs/cluster.md says."""

from __future__ import annotations

from typing import Any

import httpx

from bench.cluster_process import ClusterProcess


class Operator:
    """Does what docs/cluster.md says, at any node."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self._cluster = cluster

    def ask(self, method: str, path: str, body: object = None, at: int | None = None) -> Any:
        node = self._cluster.nodes[self._cluster.running[-1] if at is None else at]
        answer = httpx.request(method, f"{node.url}{path}", json=body, timeout=30)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def move(self, **asked: object) -> None:
        """Returns when it is over."""
        plan = self.ask("POST", "/admin/reassignment", {**asked, "dry_run": True})
        assert plan["moves"] and not plan["is_begun"]
        assert self.ask("POST", "/admin/reassignment", asked)["is_begun"]
        self._cluster.wait(lambda: not self.ask("GET", "/admin/reassignment")["moves"], "shards are still moving")

    def held(self) -> dict[int, int]:
        """How many shards each node holds."""
        nodes = self.ask("GET", "/cluster/nodes")["nodes"]
        return {one["id"]: one["leads"] + one["follows"] for one in nodes}

    def leads(self, number: int) -> int:
        nodes = self.ask("GET", "/cluster/nodes")["nodes"]
        return int(next(one["leads"] for one in nodes if one["id"] == number))

    def take_out(self, number: int) -> None:
        self.move(drain=number)
        assert self.held()[number] == 0
        assert self._cluster.stop(number) == 0
        self._cluster.wait(lambda: self._state(number) == "gone", "a node that was stopped is still there")
        self.ask("DELETE", f"/cluster/nodes/{number}")
        assert number not in self.held()

    def _state(self, number: int) -> str:
        nodes = self.ask("GET", "/cluster/nodes")["nodes"]
        return str(next(one["state"] for one in nodes if one["id"] == number))

    def restart(self, number: int) -> None:
        """When it may go."""
        others = next(one for one in self._cluster.running if one != number)
        path = f"/cluster/nodes/{number}/restart-safe"
        self._cluster.wait(lambda: self.ask("GET", path, at=others)["is_safe"], f"node {number} may not go")
        assert self._cluster.stop(number) == 0
        self._cluster.start(number)
