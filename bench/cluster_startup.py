"""How long a node with a thousand partitions that others lead takes to start, and what such nodes cost while idle."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster_process import ClusterProcess
from bench.report import Figure
from goqueue.cli.etcd_program import EtcdMissing

TOPICS = 10
PARTITIONS = 100  # of each
ROUNDS = 3
SECONDS_MAX = 3.0
IDLE_S = float(os.environ.get("IDLE_S", "20"))
IDLE_PERCENT_MAX = 3.0
_MADE_S_MAX = 120.0


def cluster_startup_figures(root: Path) -> Iterator[Figure]:
    try:
        cluster = ClusterProcess(root / "cluster").__enter__()
    except EtcdMissing as error:
        yield Figure("start in a cluster", "left out", error.message.split(";")[0])
        return
    try:
        yield from _idle(cluster, "an idle node of three")
        _fill(cluster)
        yield from _starts(cluster)
        yield from _idle(cluster, f"an idle node of three with {TOPICS * PARTITIONS:,} partitions")
    finally:
        cluster.__exit__(None, None, None)


def _fill(cluster: ClusterProcess) -> None:
    """Every partition has a message, so that it has files."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topics = [NewTopic(f"topic-{number}", PARTITIONS) for number in range(TOPICS)]
    for made in admin.create_topics(topics, operation_timeout=_MADE_S_MAX, request_timeout=_MADE_S_MAX).values():
        made.result(_MADE_S_MAX)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(TOPICS):
        for partition in range(PARTITIONS):
            producer.produce(f"topic-{number}", b"x" * 100, partition=partition)
    if left := producer.flush(_MADE_S_MAX):
        raise RuntimeError(f"{left} messages were not acknowledged")
    cluster.wait_whole()


def _starts(cluster: ClusterProcess) -> Iterator[Figure]:
    for how, end in (("kill -9", cluster.kill), ("a clean stop", cluster.stop)):
        spent = []
        for _ in range(ROUNDS):
            end(2)
            time.sleep(1)  # the others notice, and lead
            began = time.perf_counter()
            cluster.start(2)
            spent.append(time.perf_counter() - began)
            used = cluster.nodes[2].cpu_seconds()
            cluster.wait_whole()
        name = f"a node with {TOPICS * PARTITIONS:,} partitions of others is ready after {how}"
        text = ", ".join(f"{one:.1f}" for one in spent)
        against = f"{text} s, {used:.1f} s of processor"
        yield Figure(name, f"{max(spent):.1f} s", against, f"under {SECONDS_MAX:.0f} s", max(spent) < SECONDS_MAX)


def _idle(cluster: ClusterProcess, name: str) -> Iterator[Figure]:
    time.sleep(5)  # leaders go back to where they were first
    before = [node.cpu_seconds() for node in cluster.nodes]
    time.sleep(IDLE_S)
    percent = [100 * (node.cpu_seconds() - used) / IDLE_S for node, used in zip(cluster.nodes, before, strict=True)]
    bar = f"under {IDLE_PERCENT_MAX:.0f} % of a core"
    text = ", ".join(f"{one:.1f}" for one in percent)
    yield Figure(name, f"{max(percent):.1f} %", f"{text} %", bar, max(percent) < IDLE_PERCENT_MAX)
