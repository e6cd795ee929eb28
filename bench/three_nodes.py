"""Three nodes here beside Apache Kafka's three brokers: the same clients and settings, round by round in turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from bench.apache_brokers import ApacheBrokers
from bench.bare_kafka import PARTITIONS
from bench.cluster_process import ClusterProcess
from bench.failover import KafkaPulse
from bench.report import Figure
from bench.share import SETTINGS as SHARE_SETTINGS
from bench.share import configure
from bench.share_load import has_client
from goqueue.cli.etcd_program import EtcdMissing
from tests.door.kafka.apache import SHARE_VERSION, find_jars

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "3"))
KILLS = int(os.environ.get("CLUSTER_KILLS", "5"))
SECONDS = 4.0
READ = int(os.environ.get("CLUSTER_READ", "1000000"))  # messages that are consumed
SHARED = int(os.environ.get("CLUSTER_SHARED", "300000"))  # messages that are leased and acknowledged
LATENCY = 1_000  # messages a second
SETTINGS = {"min.insync.replicas": "2"}
# How many records of a partition a group holds at most is a setting of Apache Kafka's brokers, and the same there.
_BROKERS_SHARE = {"share.auto.offset.reset": SHARE_SETTINGS["share.auto.offset.reset"]}


class Side(NamedTuple):
    """One of the two clusters. `kill` ends a node and `heal` brings it back; `share` are settings of share groups."""

    bootstrap: str
    kill: Callable[[int], None]
    heal: Callable[[], None]
    share: Mapping[str, str]


class Pair(NamedTuple):
    """What both reached, in rounds that took turns; `theirs` is empty without Apache Kafka."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(mine / other for mine, other in zip(self.ours, self.theirs, strict=True))


def cluster_figures(root: Path) -> Iterator[Figure]:
    with ExitStack() as stack:
        try:
            ours = stack.enter_context(ClusterProcess(root / "cluster"))
        except EtcdMissing as error:
            yield Figure("three nodes", "left out", error.message.split(";")[0])
            return
        sides = [Side(ours.bootstrap, ours.kill, ours.heal, SHARE_SETTINGS)]
        if (brokers := _apache(root / "apache", stack)) is not None:
            sides.append(Side(brokers.bootstrap, brokers.kill, brokers.heal, _BROKERS_SHARE))
        else:
            yield Figure("Apache Kafka's three brokers", "left out", "there are no jars")
        yield from _figures(sides)


def _apache(scratch: Path, stack: ExitStack) -> ApacheBrokers | None:
    scratch = scratch.resolve()
    scratch.mkdir()
    jars = find_jars(scratch, SHARE_VERSION)
    return None if jars is None else stack.enter_context(ApacheBrokers(jars, scratch))


def _figures(sides: Sequence[Side]) -> Iterator[Figure]:
    for part in PARTS:
        yield from _PARTS[part](sides)


def _produce_figures(sides: Sequence[Side]) -> Iterator[Figure]:
    _make(sides, "load", PARTITIONS)
    yield _rate("produce 100-byte messages, acks=all, factor 3", _in_turn(sides, _produce))


def _consume_figures(sides: Sequence[Side]) -> Iterator[Figure]:
    _make(sides, "read", PARTITIONS)
    _fill(sides, "read", READ)
    yield _rate("consume 100-byte messages", _in_turn(sides, _consume))


def _latency_figures(sides: Sequence[Side]) -> Iterator[Figure]:
    _make(sides, "latency", PARTITIONS)
    latencies = [
        [_load("latency", side.bootstrap, "latency", LATENCY, SECONDS) for side in sides] for _ in range(ROUNDS)
    ]
    for name in ("p50", "p99"):
        pair = _pair([[one[name] for one in found] for found in latencies])
        yield _time(f"acknowledged latency at 1,000 a second, {name}", pair, "{:.2f} ms")


def _lease_figures(sides: Sequence[Side]) -> Iterator[Figure]:
    if has_client():
        _make(sides, "shared", PARTITIONS)
        _fill(sides, "shared", SHARED * 1.2)
        yield _rate("lease and acknowledge, C client", _in_turn(sides, _share))


def _failover_figures(sides: Sequence[Side]) -> Iterator[Figure]:
    _make(sides, "failover", 1)
    kills = [[_failover(side) for side in sides] for _ in range(KILLS)]
    yield _time("kill -9 of the leader to the next write, C client", _pair(kills), "{:.0f} ms")


_PARTS: Final = {
    "produce": _produce_figures,
    "consume": _consume_figures,
    "latency": _latency_figures,
    "lease": _lease_figures,
    "failover": _failover_figures,
}
PARTS = os.environ.get("CLUSTER_PARTS", ",".join(_PARTS)).split(",")


# --- one round of one side ---------------------------------------------------------------------------------------


def _produce(side: Side, number: int) -> float:
    return _load("produce", side.bootstrap, "load", 100, SECONDS)["rate"]


def _consume(side: Side, number: int) -> float:
    return _load("consume", side.bootstrap, "read", PARTITIONS, READ)["rate"]


def _fill(sides: Sequence[Side], topic: str, count: float) -> None:
    """Every round begins at the beginning."""
    for side in sides:
        stored = 0.0
        while stored < count:
            stored += _load("produce", side.bootstrap, topic, 100, 1.0)["count"]


def _share(side: Side, number: int) -> float:
    group = f"group-{number}"
    configure(side.bootstrap, group, side.share)
    command = [sys.executable, "-m", "bench.share_load", "client", side.bootstrap, group, "shared", str(SHARED)]
    found = _run(command)
    return found["count"] / (found["ended"] - found["began"])


def _failover(side: Side) -> float:
    """Milliseconds."""
    with KafkaPulse(side.bootstrap) as pulse:
        pulse.next_after(time.perf_counter())
        leader = _leader(side.bootstrap)
        moment = time.perf_counter()
        side.kill(leader)
        spent = pulse.next_after(moment)
    side.heal()
    return spent * 1000


def _leader(bootstrap: str) -> int:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics("failover", 30)
    return int(found.topics["failover"].partitions[0].leader)


def _make(sides: Sequence[Side], topic: str, partitions: int) -> None:
    for side in sides:
        admin = AdminClient({"bootstrap.servers": side.bootstrap})
        for made in admin.create_topics([NewTopic(topic, partitions, 3, config=SETTINGS)]).values():
            made.result(60)


def _load(kind: str, address: str, topic: str, first: float, second: float) -> dict[str, float]:
    return _run([sys.executable, "-m", "bench.kafka_load", kind, address, topic, str(first), str(second)])


def _run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


# --- both sides --------------------------------------------------------------------------------------------------


def _in_turn(sides: Sequence[Side], measure: Callable[[Side, int], float]) -> Pair:
    return _pair([[measure(side, number) for side in sides] for number in range(ROUNDS)])


def _pair(rounds: Sequence[Sequence[float]]) -> Pair:
    return Pair([one[0] for one in rounds], [one[1] for one in rounds if len(one) > 1])


def _rate(name: str, pair: Pair) -> Figure:
    value = f"{statistics.median(pair.ours):,.0f} msg/s"
    if not pair.theirs:
        return Figure(name, value)
    against = f"{pair.ratio:.2f} of Kafka's {statistics.median(pair.theirs):,.0f}"
    return Figure(name, value, against, "at least 1.00", pair.ratio >= 1.0)


def _time(name: str, pair: Pair, form: str) -> Figure:
    """The ratio is of speeds: above 1 is quicker than Kafka."""
    value = form.format(statistics.median(pair.ours))
    if not pair.theirs:
        return Figure(name, value)
    quicker = 1 / pair.ratio
    against = f"{quicker:.2f} as quick as Kafka's {form.format(statistics.median(pair.theirs))}"
    return Figure(name, value, against, "at least 1.00", quicker >= 1.0)
