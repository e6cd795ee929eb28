"""`make bench`: every benchmark, or those named: `python -m bench storage rest`."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import (
    cluster_startup,
    copying,
    delay,
    failover,
    grpc_load,
    kafka,
    memory,
    moving,
    opening,
    pipeline,
    pipeline_codec,
    processes,
    queue,
    queue_fairness,
    replay,
    rest,
    schemas,
    scrape,
    share,
    startup,
    storage,
    sync,
    take_over,
    tasks,
    three_nodes,
    traces,
    transactions,
)
from bench.report import Figure, show
from bench.storage import scratch

SUITES: dict[str, list[Callable[[Path], Iterator[Figure]]]] = {
    "storage": [storage.append_figures, storage.read_figures],
    "sync": [sync.bare_figures, sync.latency_figures, sync.many_figures, sync.batch_figures, replay.replay_figures],
    "opening": [opening.opening_figures, startup.startup_figures],
    "rest": [rest.publish_figures],
    "grpc": [grpc_load.grpc_figures],
    "kafka": [kafka.kafka_figures],
    "share": [share.share_figures],
    "queue": [queue.interval_figures, queue.always_figures, queue_fairness.fairness_figures],
    "tasks": [tasks.tasks_figures],
    "delay": [delay.fire_figures, delay.pending_figures],
    "transactions": [transactions.publish_figures, transactions.read_figures],
    "moving": [moving.moving_figures],
    "take_over": [take_over.take_over_figures],
    "copying": [copying.copying_figures],
    "processes": [processes.process_figures],
    "cluster": [three_nodes.cluster_figures],
    "failover": [failover.failover_figures],
    "cluster_startup": [cluster_startup.cluster_startup_figures],
    "traces": [traces.trace_figures],
    "schemas": [schemas.validation_figures, schemas.check_figures],
    "pipeline": [pipeline_codec.decode_figures, pipeline_codec.encode_figures, pipeline.spark_figures],
    "scrape": [scrape.scrape_figures],
    "memory": [memory.memory_figures],
}


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in SUITES]:
        print(f"{unknown[0]} is no suite. Name some of these, or none for all: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}")
    missed = 0
    for name in names or SUITES:
        for suite in SUITES[name]:
            with scratch() as root:
                figures = list(suite(root))
            show(name, figures)
            missed += sum(figure.ok is False for figure in figures)
    print(f"\n{'All bars held.' if not missed else f'{missed} bars missed.'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
