"""The systems, each with a pinned configuration that is printed, started fresh on loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from confluent_kafka.admin import AdminClient

from bench.apache_brokers import ApacheBrokers
from bench.cluster_process import ClusterProcess
from bench.compare.model import OURS, OURS_SYNCED, OURS_THREE, Running, System
from bench.compare.spark_load import TRIGGERS
from bench.maven import maven_jars
from bench.node_process import NodeProcess
from bench.peers import nats, rabbitmq, redis_streams
from bench.peers.server import PeerMissing, Server, free_port, serve
from bench.task_apps import GOQUEUE, PEERS, TaskPeer
from goqueue.cli.etcd_program import EtcdMissing
from tests.door.kafka.apache import SHARE_VERSION, find_jars

ELASTICMQ = ("org.elasticmq", "elasticmq-server_2.13", "1.6.12")


@contextmanager
def _goqueue(root: Path, fsync: str = "interval") -> Iterator[Running]:
    node = NodeProcess(root / "data", settings={"GOQUEUE_LOG_FSYNC": fsync})
    with node:
        port = urlsplit(node.url).port or 0
        running = Running(
            kafka=node.kafka,
            queue=("goqueue", port),
            sqs=node.sqs,
            rest=node.url,
            pids=lambda: [node.pid],
            crash=node.kill,
        )

        def restart() -> None:
            node.start()
            running.kafka, running.rest, running.sqs = node.kafka, node.url, node.sqs

        running.restart = restart
        yield running


@contextmanager
def _goqueue_three(root: Path) -> Iterator[Running]:
    try:
        cluster = ClusterProcess(root / "cluster")
        with cluster:
            yield Running(
                kafka=cluster.bootstrap,
                factor=3,
                rest=cluster.nodes[0].url,
                pids=lambda: [cluster.nodes[number].pid for number in cluster.running],
                kill_leader=lambda topic: cluster.kill(_leader(cluster.bootstrap, topic)),
                heal=cluster.heal,
            )
    except EtcdMissing as error:
        raise PeerMissing(error.message.split(";")[0]) from None


def _kafka(nodes: int, **topic_config: str) -> Callable[[Path], AbstractContextManager[Running]]:
    @contextmanager
    def start(root: Path) -> Iterator[Running]:
        scratch = root.resolve()
        scratch.mkdir(parents=True, exist_ok=True)
        jars = find_jars(scratch, SHARE_VERSION)
        if jars is None:
            raise PeerMissing("Apache Kafka's jars cannot be had; KAFKA_FETCH=1 lets Maven fetch them")
        with ApacheBrokers(jars, scratch, nodes) as brokers:
            yield Running(
                kafka=brokers.bootstrap,
                factor=nodes,
                topic_config=topic_config,
                pids=brokers.pids,
                crash=lambda: _each(brokers, brokers.kill),
                restart=brokers.heal,
                kill_leader=lambda topic: brokers.kill(_leader(brokers.bootstrap, topic)),
                heal=brokers.heal,
            )

    return start


def _each(brokers: ApacheBrokers, act: Callable[[int], None]) -> None:
    for number in range(len(brokers.addresses)):
        act(number)


def _leader(bootstrap: str, topic: str) -> int:
    found = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(topic, 30)
    return int(found.topics[topic].partitions[0].leader)


def _peer(
    module: str, client: str, server: Callable[[Path], AbstractContextManager[Server]]
) -> Callable[[Path], AbstractContextManager[Running]]:
    @contextmanager
    def start(root: Path) -> Iterator[Running]:
        if find_spec(client) is None:
            raise PeerMissing(f"its client {client} is missing")
        with server(root) as running:
            yield Running(queue=(module, running.port), stream=(module, running.port), pids=running.pids)

    return start


@contextmanager
def _rabbitmq_stream(root: Path) -> Iterator[Running]:
    with _peer("rabbitmq", "pika", rabbitmq.server)(root) as running:
        yield Running(stream=running.stream, pids=running.pids)


@contextmanager
def _parquet(root: Path) -> Iterator[Running]:
    yield Running(files=root)


_ELASTICMQ_CONFIG = """include classpath("application.conf")
node-address {{ protocol = http, host = localhost, port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
"""


@contextmanager
def _elasticmq(root: Path) -> Iterator[Running]:
    scratch = root.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    jars = maven_jars(scratch, [ELASTICMQ])
    if jars is None or find_spec("boto3") is None:
        raise PeerMissing("ElasticMQ's jars cannot be had; KAFKA_FETCH=1 lets Maven fetch them")
    port = free_port()
    (scratch / "elasticmq.conf").write_text(_ELASTICMQ_CONFIG.format(port=port))
    command = ["java", "-Xmx512m", f"-Dconfig.file={scratch / 'elasticmq.conf'}", "-cp", f"{jars}/*"]
    with serve([*command, "org.elasticmq.server.Main"], port, scratch / "elasticmq") as running:
        yield Running(sqs=f"http://127.0.0.1:{port}", pids=running.pids)


_LOG = frozenset({"kafka", "log"})
_SYNCED = frozenset({"synced"})
_SQS = frozenset({"sqs"}) if find_spec("boto3") is not None else frozenset()

TASKS: dict[str, TaskPeer] = {OURS: GOQUEUE} | {peer.name.lower().replace(" ", "-"): peer for peer in PEERS}


@contextmanager
def _with_its_worker(root: Path) -> Iterator[Running]:
    """Of task frameworks: the server is started with the worker."""
    yield Running()


SYSTEMS: list[System] = [
    System(
        OURS,
        "GoQueue",
        1,
        _LOG | {"queue", "lanes", "tasks", "spark", "start"} | _SQS,
        "fsync=interval (1 s in the background), 8 shards",
        _goqueue,
    ),
    System(
        "kafka",
        "Apache Kafka",
        1,
        _LOG | {"spark", "start"},
        f"{SHARE_VERSION}, KRaft, -Xmx512m SerialGC, no flush by the broker (its default)",
        _kafka(1),
    ),
    System(
        "redis",
        "Redis Streams",
        1,
        frozenset({"log", "queue", "start"}),
        "appendonly yes, appendfsync everysec",
        _peer("redis_streams", "redis", lambda root: redis_streams.server(root, "everysec")),
    ),
    System(
        "nats",
        "NATS JetStream",
        1,
        frozenset({"log", "queue", "start"}),
        "file storage, a work queue or a log, sync in the background (its default)",
        _peer("nats", "nats", nats.server),
    ),
    System(
        "rabbitmq",
        "RabbitMQ",
        1,
        frozenset({"queue", "lanes", "start"}),
        "quorum queue (classic for priorities), publisher confirms (it syncs before it confirms), prefetch 100",
        _peer("rabbitmq", "pika", rabbitmq.server),
    ),
    System(
        "rabbitmq-stream",
        "RabbitMQ stream",
        1,
        frozenset({"log"}),
        "one stream over AMQP 0.9.1 with pika, publisher confirms (written, not synced: its way), read from "
        "x-stream-offset=first, prefetch 5,000",
        _rabbitmq_stream,
    ),
    System("elasticmq", "ElasticMQ", 1, _SQS, f"{ELASTICMQ[2]}, in memory (its default), -Xmx512m", _elasticmq),
    System(
        OURS_SYNCED,
        "GoQueue, synced",
        1,
        _SYNCED,
        "fsync=always: a write is acknowledged when it is on the disk; 8 shards",
        lambda root: _goqueue(root, "always"),
    ),
    System(
        "kafka-fsync",
        "Apache Kafka, synced",
        1,
        _SYNCED,
        f"{SHARE_VERSION}, KRaft, -Xmx512m SerialGC, flush.messages=1: every batch is synced before it is acknowledged",
        _kafka(1, **{"flush.messages": "1"}),
    ),
    System(
        "redis-fsync",
        "Redis Streams, synced",
        1,
        _SYNCED,
        "appendonly yes, appendfsync always",
        _peer("redis_streams", "redis", lambda root: redis_streams.server(root, "always")),
    ),
    System(
        "parquet",
        "Parquet",
        1,
        frozenset({"spark"}),
        f"Spark's own, {TRIGGERS} files, on the local disk and not synced",
        _parquet,
    ),
    System(
        OURS_THREE,
        "GoQueue, 3 nodes",
        3,
        _LOG,
        "factor 3, min.insync.replicas 2, fsync=interval, one etcd",
        _goqueue_three,
    ),
    System(
        "kafka-3",
        "Apache Kafka, 3 brokers",
        3,
        _LOG,
        f"{SHARE_VERSION}, KRaft, factor 3, min.insync.replicas 2, -Xmx512m SerialGC each",
        _kafka(3),
    ),
    *(
        System(
            key,
            peer.name,
            1,
            frozenset({"tasks"}),
            f"{', '.join(peer.packages)}; server {peer.server}",
            _with_its_worker,
        )
        for key, peer in TASKS.items()
        if key != OURS
    ),
]


def memory_mib(pids: list[int]) -> float:
    """What these processes have to themselves, shared pages divided."""
    total = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def java_version() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, env=os.environ, check=False)
    return (done.stderr.splitlines() or ["no Java"])[0]
