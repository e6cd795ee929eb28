"""The queue beside other brokers that sync alike: batches taken and acknowledged, and the way of one message."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from bench.compare.model import CheckFailed
from bench.node_process import NodeProcess
from bench.peers import nats, rabbitmq, redis_streams
from bench.peers.server import PeerMissing
from bench.report import Figure

CONSUMERS = (1, 2, 4, 8)
ROUNDS = 3
RATE = 500
SECONDS = 5.0
THROUGHPUT_BAR = 150_000
LATENCY_BAR_MS = 10.0


class Broker(Protocol):
    """A server that runs."""

    port: int

    def cpu_seconds(self) -> float: ...


class Contender(msgspec.Struct, frozen=True):
    """`module` is below `bench.peers`; `client` is the package its client comes from; `count` is a round's backlog."""

    name: str
    module: str
    client: str
    count: int
    server: Callable[[Path], AbstractContextManager[Broker]]


Running = tuple[Contender, Broker]


class Node:
    def __init__(self, process: NodeProcess) -> None:
        self.port = urlsplit(process.url).port or 0
        self.cpu_seconds = process.cpu_seconds


def goqueue(fsync: str) -> Contender:
    @contextmanager
    def server(root: Path) -> Iterator[Node]:
        with NodeProcess(root / "goqueue", "--fsync", fsync) as process:
            yield Node(process)

    return Contender("GoQueue", "goqueue", "httptools", 200_000, server)


def redis(appendfsync: str) -> Contender:
    name = f"Redis Streams, appendfsync {appendfsync}"
    return Contender(name, "redis_streams", "redis", 100_000, lambda root: redis_streams.server(root, appendfsync))


# Who syncs as we do. NATS syncs in the background, less often than we; a quorum queue syncs before it confirms.
MATCHES: dict[str, list[Contender]] = {
    "interval": [
        goqueue("interval"),
        redis("everysec"),
        Contender("NATS JetStream", "nats", "nats", 50_000, nats.server),
    ],
    "always": [goqueue("always"), redis("always"), Contender("RabbitMQ", "rabbitmq", "pika", 50_000, rabbitmq.server)],
}


def interval_figures(root: Path) -> Iterator[Figure]:
    return match_figures(root, "interval", THROUGHPUT_BAR, LATENCY_BAR_MS)


def always_figures(root: Path) -> Iterator[Figure]:
    return match_figures(root, "always", None, None)


def match_figures(root: Path, fsync: str, rate_bar: int | None, latency_bar: float | None) -> Iterator[Figure]:
    """Everyone is up during all of it and only one works at a time, in turn."""
    with ExitStack() as stack:
        running: list[Running] = []
        for contender in MATCHES[fsync]:
            try:
                running.append((contender, stack.enter_context(installed(contender, root))))
            except PeerMissing as error:
                yield Figure(contender.name, "left out", str(error))
        yield from throughput_figures(fsync, running, rate_bar)
        yield from latency_figures(fsync, running, latency_bar)


def installed(contender: Contender, root: Path) -> AbstractContextManager[Broker]:
    if find_spec(contender.client) is None:
        raise PeerMissing(f"its client {contender.client} is missing")
    return contender.server(root)


class Drained(msgspec.Struct, frozen=True):
    """Messages a second, and the processor time of a message on either side, in microseconds."""

    rate: float
    server_us: float
    client_us: float

    def __str__(self) -> str:
        return f"{self.server_us:.1f} + {self.client_us:.1f} us, {self.rate * self.client_us / 1e6:.0%}"


def throughput_figures(fsync: str, running: list[Running], bar: int | None) -> Iterator[Figure]:
    legend = "CPU a message, server + client; client's share of a core"
    yield Figure(f"take and acknowledge, batches of 100, fsync={fsync}", "", legend)
    best = dict.fromkeys((contender.name for contender, _ in running), 0.0)
    filled = dict.fromkeys(best, 0)
    for consumers in CONSUMERS:
        found = drain_in_turn(running, consumers, filled)
        ours = found[running[0][0].name]
        for name, rounds in found.items():
            middle = middle_of(rounds)
            ratio = statistics.median(mine.rate / other.rate for mine, other in zip(ours, rounds, strict=True))
            best[name] = max(best[name], middle.rate)
            against = str(middle) if rounds is ours else f"ratio {ratio:.2f}; {middle}"
            plural = "consumers" if consumers > 1 else "consumer"
            yield Figure(f"  {name}, {consumers} {plural}", f"{middle.rate:,.0f} msg/s", against)
    yield from best_figures(running, best, bar)


def drain_in_turn(running: list[Running], consumers: int, filled: dict[str, int]) -> dict[str, list[Drained]]:
    found: dict[str, list[Drained]] = {contender.name: [] for contender, _ in running}
    for _ in range(ROUNDS):
        for contender, broker in running:
            first = filled[contender.name]
            load("fill", contender, broker, first, contender.count)
            filled[contender.name] += contender.count
            found[contender.name].append(drained(contender, broker, consumers, first))
    return found


def drained(contender: Contender, broker: Broker, consumers: int, first: int) -> Drained:
    before = broker.cpu_seconds()
    found = load("drain", contender, broker, consumers, first, contender.count)
    server = broker.cpu_seconds() - before
    return Drained(found["rate"], server / contender.count * 1e6, found["cpu"] / contender.count * 1e6)


def middle_of(rounds: list[Drained]) -> Drained:
    return Drained(
        statistics.median(one.rate for one in rounds),
        statistics.median(one.server_us for one in rounds),
        statistics.median(one.client_us for one in rounds),
    )


def bare_rate(count: int) -> float:
    """The same client against the same HTTP server with nothing behind it."""
    with bare_server("bare_queue", count) as port:
        return run_load("drain", "goqueue", port, 8, 0, count)["rate"]


@contextmanager
def bare_server(module: str, *arguments: object) -> Iterator[int]:
    """The port of a server that does less than a node."""
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def best_figures(running: list[Running], best: dict[str, float], bar: int | None) -> Iterator[Figure]:
    ours, *peers = (contender.name for contender, _ in running)
    against = f"at least {bar:,}" if bar else ""
    bare = statistics.median(bare_rate(running[0][0].count) for _ in range(ROUNDS))
    share = f"{best[ours] / bare:.2f} of prepared answers ({bare:,.0f})"
    ok = best[ours] >= bar if bar else None
    yield Figure("  GoQueue at its best", f"{best[ours]:,.0f} msg/s", share, against, ok)
    for peer in peers:
        yield Figure(f"  against {peer} at its best", f"{best[ours] / best[peer]:.2f}", f"of {best[peer]:,.0f}")


def latency_figures(fsync: str, running: list[Running], bar: float | None) -> Iterator[Figure]:
    yield Figure(f"publish, poll, process, ack one by one at {RATE} a second, fsync={fsync}", "")
    found: dict[str, list[dict[str, float]]] = {contender.name: [] for contender, _ in running}
    for _ in range(ROUNDS):
        for contender, broker in running:
            found[contender.name].append(load("paced", contender, broker, 8, RATE, SECONDS))
    middle = {
        name: {share: statistics.median(one[share] for one in rounds) for share in rounds[0]}
        for name, rounds in found.items()
    }
    ours = middle[running[0][0].name]["p99"]
    for contender, _ in running:
        one, first = middle[contender.name], contender is running[0][0]
        others = f"p50 {one['p50']:.2f}, p99.9 {one['p99.9']:.2f}"
        yield Figure(
            f"  {contender.name}",
            f"p99 {one['p99']:.2f} ms",
            others if first else f"ratio {ours / one['p99']:.2f}; {others}",
            f"p99 under {bar:.0f} ms" if bar and first else "",
            one["p99"] < bar if bar and first else None,
        )


def load(kind: str, contender: Contender, broker: Broker, *numbers: float) -> dict[str, float]:
    return run_load(kind, contender.module, broker.port, *numbers)


def run_load(kind: str, module: str, port: int, *numbers: float) -> dict[str, float]:
    """Raises CheckFailed where messages were lost, came twice or were damaged."""
    command = [sys.executable, "-m", "bench.queue_load", kind, module, str(port), *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{kind} {module}: {done.stderr}")
    found = json.loads(done.stdout)
    if "failed" in found:
        raise CheckFailed(f"{module}: {found['failed']}")
    return {name: float(value) for name, value in found.items()}
