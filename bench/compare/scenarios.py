"""What is measured, by door. Each measure checks every answer and reads every message back."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic

from bench.compare import log_load, stream_load
from bench.compare.log_load import PARTITIONS
from bench.compare.model import CheckFailed, Metric, Running, Sample, Scenario, System, Turn
from bench.compare.spark_load import TRIGGERS, Parquet, Table, Topic, measure, require_connector
from bench.compare.sqs_load import delays, round_trips
from bench.compare.syncs import Span, require_syncs
from bench.compare.systems import TASKS, memory_mib
from bench.failover import KafkaPulse
from bench.queue import run_load
from bench.tasks import TaskBench

_KIB = 1024
_GROUPS = 10
_TRANSACTION = 100
_IDLE_S = 3.0
_BACKLOG = 15_000
_LOAD_S = 900
_FRESH = 32  # the share of a full log that is written just before a crash
_SLOWER = 5  # a client in Python gets fewer messages, which take it longer still


def topic_of(running: Running, name: str, partitions: int = PARTITIONS, count: int = 1) -> str:
    """A topic (or several, numbered) that nobody used before; its name."""
    admin = AdminClient({"bootstrap.servers": running.kafka, "log_level": 0})
    names = [name] if count == 1 else [f"{name}-{number}" for number in range(count)]
    config = {"min.insync.replicas": str(min(2, running.factor)), **running.topic_config}
    for at in range(0, len(names), 100):
        topics = [NewTopic(one, partitions, running.factor, config=config) for one in names[at : at + 100]]
        for made in admin.create_topics(topics).values():
            made.result(60)
    return name


def _checked(command: list[str]) -> dict[str, float]:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=_LOAD_S, check=False)
    if done.returncode:
        raise CheckFailed(f"the load ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    found = json.loads(done.stdout)
    if "failed" in found:
        raise CheckFailed(found["failed"])
    return {str(name): float(value) for name, value in found.items()}


def load(kind: str, running: Running, topic: str, first: float, second: float) -> dict[str, float]:
    return _checked(["-m", "bench.compare.log_load", kind, running.kafka, topic, str(first), str(second)])


# --- logs ----------------------------------------------------------------------------------------------------------


def _throughput(size: int) -> Callable[[Running, Turn], Sample]:
    def measure(running: Running, turn: Turn) -> Sample:
        name, count = f"throughput-{size}-{turn.number}", turn.effort.messages * 100 // max(size // 4, 100)
        if running.stream is not None:
            peer, port = running.stream
            command = ["-m", "bench.compare.stream_load", peer, str(port), name]
            return _checked([*command, str(count // _SLOWER), str(size)])
        return load("throughput", running, topic_of(running, name), count, size)

    return measure


def _synced(size: int) -> Callable[[Running, Turn], Sample]:
    """The same, of systems that say that they sync before they acknowledge; in the round that does not count they are
    watched."""
    measure = _throughput(size)

    def checked(running: Running, turn: Turn) -> Sample:
        if turn.number == 0:
            require_syncs(running.pids(), _singles(running, f"syncs-{size}"))
        return measure(running, turn)

    return checked


def _singles(running: Running, name: str) -> Callable[[int], list[Span]]:
    if running.stream is None:
        return lambda count: log_load.singles(running.kafka, topic_of(running, name, 1), count)
    peer, port = running.stream
    return lambda count: asyncio.run(stream_load.singles(stream_load.STREAMS[peer](port, name), count))


def _latency(rate: int) -> Callable[[Running, Turn], Sample]:
    def measure(running: Running, turn: Turn) -> Sample:
        topic = topic_of(running, f"latency-{rate}-{turn.number}")
        return load("latency", running, topic, rate, turn.effort.seconds)

    return measure


def _fan_out(running: Running, turn: Turn) -> Sample:
    return load("fan-out", running, topic_of(running, f"fan-{turn.number}"), turn.effort.messages // 5, _GROUPS)


def _transactions(running: Running, turn: Turn) -> Sample:
    count = turn.effort.messages // 5
    return load("transactions", running, topic_of(running, f"transactions-{turn.number}"), count, _TRANSACTION)


def _many_topics(running: Running, turn: Turn) -> Sample:
    name = topic_of(running, f"many-{turn.number}", 1, turn.effort.topics)
    return load("many-topics", running, name, turn.effort.topics, 0)


def _recovery(running: Running, turn: Turn) -> Sample:
    """kill -9 with much in the log, until the next write is acknowledged; then everything is looked for.

    The log is filled in the round that does not count. Every round adds some, which a crash finds just written.
    """
    assert running.crash is not None and running.restart is not None
    if turn.number == 0:
        load("fill", running, topic_of(running, "full"), turn.effort.log_mib * _KIB, _KIB)
    topic, count = f"recovery-{turn.number}", turn.effort.log_mib * _KIB // _FRESH
    load("fill", running, topic_of(running, topic), count, _KIB)
    running.crash()
    began = time.perf_counter()
    running.restart()
    load("fill", running, topic, 1, _KIB)
    spent = time.perf_counter() - began
    load("recovered", running, topic, count, _KIB)
    load("recovered", running, "full", turn.effort.log_mib * _KIB, _KIB)
    return {"recovery": spent}


def _failover(running: Running, turn: Turn) -> Sample:
    """kill -9 of the leader until the next acknowledged write of the C client."""
    assert running.kill_leader is not None and running.heal is not None
    if turn.number == 0:
        topic_of(running, "failover", 1)
    spent: list[float] = []
    for _ in range(turn.effort.kills):
        with KafkaPulse(running.kafka) as pulse:
            pulse.next_after(time.perf_counter())
            moment = time.perf_counter()
            running.kill_leader("failover")
            spent.append(pulse.next_after(moment) * 1000)
        running.heal()
    return {"failover": median(spent), "failover-worst": max(spent)}


# --- queues --------------------------------------------------------------------------------------------------------


def _work(consumers: int) -> Callable[[Running, Turn], Sample]:
    def measure(running: Running, turn: Turn) -> Sample:
        assert running.queue is not None
        count = turn.effort.messages // 5
        first = turn.number * count
        run_load("fill", *running.queue, first, count)
        return {"work": run_load("drain", *running.queue, consumers, first, count)["rate"]}

    return measure


def _trips(running: Running, turn: Turn) -> Sample:
    assert running.queue is not None
    found = run_load("paced", *running.queue, 8, 500, turn.effort.seconds)
    return {"trip-p50": found["p50"], "trip-p99": found["p99"], "trip-p999": found["p99.9"]}


def _lanes(running: Running, turn: Turn) -> Sample:
    """In a queue that nobody used before, so on a server of its own for each round."""
    assert running.queue is not None
    peer, port = running.queue
    return _checked(["-m", "bench.compare.lanes_load", peer, str(port), str(_BACKLOG)])


def _tasks(system: System, turn: Turn) -> Sample:
    return {"tasks": TaskBench(TASKS[system.key], turn.scratch).rate(turn.number)}


# --- Spark ---------------------------------------------------------------------------------------------------------


def _spark(running: Running, turn: Turn) -> Sample:
    name = f"spark-{turn.number}"
    if running.files is not None:
        table: Table = Parquet(running.files / name)
    elif running.rest:
        table = Topic("goqueue", running.kafka, topic_of(running, name))
    else:
        require_connector(turn.scratch)
        table = Topic("kafka", running.kafka, topic_of(running, name))
    return measure(table, turn.effort.messages, turn.scratch)


# --- the server itself ---------------------------------------------------------------------------------------------


def _start(system: System, turn: Turn) -> Sample:
    """From nothing to the first acknowledged write; memory when it has stood idle for a moment."""
    home, began = _home(system, turn), time.perf_counter()
    with system.start(home) as running:
        if running.queue is not None:
            run_load("fill", *running.queue, 0, 1)
        else:
            load("fill", running, topic_of(running, "first"), 1, 100)
        spent = time.perf_counter() - began
        time.sleep(_IDLE_S)
        return {"start": spent, "memory": memory_mib(running.pids())}


def _on_its_own(system: System, turn: Turn, measure: Callable[[Running, Turn], Sample]) -> Sample:
    with system.start(_home(system, turn)) as running:
        return measure(running, turn)


def _home(system: System, turn: Turn) -> Path:
    home = (turn.scratch / f"{system.key}-{turn.number}").resolve()
    home.mkdir()
    return home


_ACK = (
    Metric("ack-p50", "acknowledged, p50", "ms", False),
    Metric("ack-p99", "acknowledged, p99", "ms", False),
    Metric("ack-p999", "acknowledged, p99.9", "ms", False),
    Metric("end-p50", "end to end, p50", "ms", False),
    Metric("end-p99", "end to end, p99", "ms", False),
    Metric("end-p999", "end to end, p99.9", "ms", False),
)
_RATES = (Metric("publish", "publish", "msg/s"), Metric("consume", "consume", "msg/s"))
_WORK = (Metric("work", "take and acknowledge", "msg/s"),)
_BOTH = (1, 3)

SCENARIOS: list[Scenario] = [
    Scenario("log-100", "Log, 100-byte messages", "log", _RATES, _throughput(100), nodes=_BOTH),
    Scenario("log-1k", "Log, 1 KiB messages", "log", _RATES, _throughput(_KIB), nodes=_BOTH),
    Scenario("log-100-fsync", "Log, 100-byte messages, on the disk", "synced", _RATES, _synced(100)),
    Scenario("log-1k-fsync", "Log, 1 KiB messages, on the disk", "synced", _RATES, _synced(_KIB)),
    Scenario("latency-1k", "Open loop, 1,000 messages a second", "kafka", _ACK, _latency(1_000), nodes=_BOTH),
    Scenario("latency-10k", "Open loop, 10,000 messages a second", "kafka", _ACK, _latency(10_000)),
    Scenario("fan-out", "Every message to 10 groups", "kafka", (Metric("fan-out", "read", "msg/s"),), _fan_out),
    Scenario(
        "transactions",
        "Transactions of 100 messages",
        "kafka",
        (Metric("transactions", "commits and aborts", "a second"),),
        _transactions,
        nodes=_BOTH,
    ),
    Scenario(
        "topics",
        "A message to each of many topics",
        "kafka",
        (Metric("topics", "all of them", "s", False),),
        _many_topics,
    ),
    Scenario("work-1", "Work queue, 1 consumer, batches of 100", "queue", _WORK, _work(1)),
    Scenario("work-8", "Work queue, 8 consumers, batches of 100", "queue", _WORK, _work(8)),
    Scenario("work-64", "Work queue, 64 consumers, batches of 100", "queue", _WORK, _work(64)),
    Scenario(
        "trips",
        "Publish, take, acknowledge one by one, 500 a second",
        "queue",
        (
            Metric("trip-p50", "p50", "ms", False),
            Metric("trip-p99", "p99", "ms", False),
            Metric("trip-p999", "p99.9", "ms", False),
        ),
        _trips,
    ),
    Scenario(
        "lanes",
        "Urgent messages beside a backlog",
        "lanes",
        (Metric("urgent-p50", "urgent, p50", "ms", False), Metric("urgent-p99", "urgent, p99", "ms", False)),
        measure_start=lambda system, turn: _on_its_own(system, turn, _lanes),
    ),
    Scenario(
        "tasks",
        "Background tasks that do nothing, 8 at once, acknowledged late",
        "tasks",
        (Metric("tasks", "done", "tasks/s"),),
        measure_start=_tasks,
    ),
    Scenario(
        "sqs",
        "SQS with boto3: send, receive, delete",
        "sqs",
        (Metric("sqs", "round trips of one client", "a second"),),
        round_trips,
    ),
    Scenario(
        "delay",
        "Delayed messages beside many that wait, SQS with boto3",
        "sqs",
        (Metric("late-p50", "late by, p50", "ms", False), Metric("late-p99", "late by, p99", "ms", False)),
        delays,
    ),
    Scenario(
        "start",
        "Start and idle memory",
        "start",
        (Metric("start", "start to first write", "s", False), Metric("memory", "idle memory", "MiB", False)),
        measure_start=_start,
    ),
    Scenario(
        "recovery",
        "kill -9 with a full log",
        "kafka",
        (Metric("recovery", "until the next write", "s", False),),
        _recovery,
    ),
    Scenario(
        "failover",
        "kill -9 of the leader",
        "kafka",
        (Metric("failover", "until the next write", "ms", False), Metric("failover-worst", "worst", "ms", False)),
        _failover,
        nodes=(3,),
    ),
    Scenario(
        "spark",
        "Spark in and out, 200-byte messages",
        "spark",
        (
            Metric("spark-read", "read", "row/s"),
            Metric("spark-stream", f"read as a stream of {TRIGGERS} portions", "row/s"),
            Metric("spark-write", "write", "row/s"),
        ),
        _spark,
    ),
]
