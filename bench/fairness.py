"""Whether a tenant that floods a node crowds out another, without any quota: `python -m bench.fairness [--tree OLD]`.

1. How long one tenant's publishes take alone, and while another sends as much as it can over 50 connections: Kafka's
   produces, fetches, publishes over REST. 2. What each of two gets that both send as much as they can, one of them over
   ten times as many connections. `--tree` runs a node of another checkout instead.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import uvloop

from bench.flood import TOPIC, published
from bench.http_load import paced
from bench.node_process import NodeProcess
from bench.report import Figure, show
from bench.security import ADMIN, PASSWORD
from bench.storage import scratch

CONNECTIONS: Final = 50
RATE: Final = 100  # publishes a second of the tenant that does not flood
FLOODS: Final = {"kafka": "Kafka's produces", "fetch": "Kafka's fetches", "rest": "publishes over REST"}


class ApiKey(NamedTuple):
    """Of a user of a tenant."""

    key_id: str
    secret: str
    token: str


class Flood:
    """A process that floods from the beginning on, and counts for so long after `begin`."""

    def __init__(self, node: NodeProcess, door: str, who: ApiKey, lines: int, seconds: float) -> None:
        address = node.url if door == "rest" else node.kafka
        given = (door, address, *who, str(lines), str(seconds))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.flood", *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(self._process.communicate(timeout=60)[1])

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def answered(self) -> int:
        """When its time is over."""
        out, error = self._process.communicate(timeout=120)
        if self._process.returncode:
            raise RuntimeError(error)
        return int(out)


def prepare(node: NodeProcess, *tenants: str) -> list[ApiKey]:
    """Each with a user and its key, and a topic with something in it."""
    found = []
    with httpx.Client(base_url=node.url, auth=ADMIN, timeout=30) as admin:
        for tenant in tenants:
            admin.post("/admin/tenants", json={"name": tenant}).raise_for_status()
            user = {"name": f"user-{tenant}", "password": PASSWORD, "tenant": tenant}
            admin.post("/admin/users", json=user).raise_for_status()
            key: dict[str, Any] = admin.post("/admin/keys", json={"owner": user["name"]}).raise_for_status().json()
            name = f"{tenant}~{TOPIC}"
            admin.post("/topics", json={"name": name, "num_partitions": 1}).raise_for_status()
            many = {"messages": [{"value": "x" * 1_000}] * 100}
            admin.post(f"/topics/{name}/messages", json=many).raise_for_status()
            found.append(ApiKey(key["key"]["id"], key["secret"], key["token"]))
    return found


def p99_ms(node: NodeProcess, who: ApiKey, seconds: float) -> float:
    return uvloop.run(paced(node.url, published(node.url, who.token), RATE, seconds, connections=4))["p99"]


def beside_flood(
    node: NodeProcess, door: str, floods: ApiKey, other: ApiKey, rounds: int, seconds: float
) -> Iterator[Figure]:
    alone, beside, rates = [], [], []
    for _ in range(rounds):
        alone.append(p99_ms(node, other, seconds))
        flood = Flood(node, door, floods, CONNECTIONS, seconds)
        flood.begin()
        cpu = node.cpu_seconds()
        beside.append(p99_ms(node, other, seconds))
        busy = (node.cpu_seconds() - cpu) / seconds
        rates.append(flood.answered() / seconds)
    ratio = statistics.median(b / a for a, b in zip(alone, beside, strict=True))
    yield Figure("p99 of the other alone, ms", f"{statistics.median(alone):.2f}")
    yield Figure(
        f"beside a flood of {FLOODS[door]}, ms",
        f"{statistics.median(beside):.2f}",
        f"{ratio:.2f} times alone",
        "2 times",
        ratio <= 2,
    )
    yield Figure("  requests a second of the flood", f"{statistics.median(rates):,.0f}", f"node's CPU {busy:.0%}")


def shares(node: NodeProcess, many: ApiKey, few: ApiKey, seconds: float) -> Figure:
    """Both over Kafka, with the same requests."""
    floods = [Flood(node, "kafka", many, CONNECTIONS, seconds), Flood(node, "kafka", few, CONNECTIONS // 10, seconds)]
    for one in floods:
        one.begin()
    first, second = (one.answered() for one in floods)
    part = second / (first + second)
    what = f"part of the node of {CONNECTIONS // 10} connections beside {CONNECTIONS}"
    return Figure(what, f"{part:.2f}", bar="at least 0.4", ok=part >= 0.4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--tree", type=Path)
    given = parser.parse_args()
    with scratch() as directory:
        (directory / "users").write_text(":".join(ADMIN) + "\n")
        settings = {
            "GOQUEUE_SECURITY_AUTHENTICATION": "required",
            "GOQUEUE_SECURITY_BOOTSTRAP_FILE": str(directory / "users"),
            "GOQUEUE_SECURITY_SUPER_USERS": "admin",
        }
        with NodeProcess(directory / "node", settings=settings, tree=given.tree) as node:
            floods, other = prepare(node, "a", "b")
            for door in FLOODS:
                show(
                    f"a flood over {door}",
                    list(beside_flood(node, door, floods, other, given.rounds, given.seconds)),
                )
            show("two floods", [shares(node, floods, other, given.seconds)])


if __name__ == "__main__":
    main()
