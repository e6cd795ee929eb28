"""How long a queue stands still when the node that keeps it is killed, with little and with much in its books."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster_process import ClusterProcess
from bench.report import Figure
from goqueue.cli.etcd_program import EtcdMissing

BOOKS = tuple(int(one) for one in os.environ.get("TAKE_OVER_BOOKS", "100,20000,100000").split(","))
SECONDS_MAX = 3.0
_SETTINGS = {"GOQUEUE_QUEUE_IN_FLIGHT_MAX": "1000000"}
_TAKE = 1_000  # messages in a poll
_WAIT_S = float(os.environ.get("TAKE_OVER_WAIT_S", "60"))


def take_over_figures(root: Path) -> Iterator[Figure]:
    try:
        cluster = ClusterProcess(root / "cluster", settings=_SETTINGS).__enter__()
    except EtcdMissing as error:
        yield Figure("take-over", "left out", error.message.split(";")[0])
        return
    try:
        for number, held in enumerate(BOOKS):
            spent = _round(cluster, f"jobs-{number}", held)
            name = f"kill -9 to the next lease, {held:,} acks and leases in the books"
            yield Figure(name, f"{spent:.2f} s", "", f"under {SECONDS_MAX:.0f} s", spent < SECONDS_MAX)
            cluster.heal()
    finally:
        cluster.__exit__(None, None, None)


def _round(cluster: ClusterProcess, topic: str, held: int) -> float:
    """Every other message is leased for an hour, the rest is acknowledged: nothing of it can be forgotten."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 1)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(held + 100):
        producer.produce(topic, str(number).encode(), partition=0)
        producer.poll(0)
        if number % 50_000 == 0:
            producer.flush(60)
    producer.flush(60)
    with httpx.Client(base_url=cluster.nodes[0].url, timeout=30) as client:
        generation, left = _join(client, topic), held
        while left > 0:
            receipts = _take(client, topic, generation, min(left, _TAKE))
            left -= len(receipts)
            answer = client.post("/messages/ack", json={"receipts": receipts[::2]})
            answer.raise_for_status()
    leader = cluster.leader_of(topic)
    assert leader is not None
    moment, refused = time.perf_counter(), httpx.HTTPError("nothing was there")
    cluster.kill(leader)
    asked = [node.url for number, node in enumerate(cluster.nodes) if number != leader]
    while time.perf_counter() - moment < _WAIT_S:
        for url in asked:
            try:
                with httpx.Client(base_url=url, timeout=10) as client:
                    if _take(client, topic, _join(client, topic), 1):
                        return time.perf_counter() - moment
            except httpx.HTTPError as error:
                refused = error
                time.sleep(0.02)
    raise RuntimeError(f"nothing was leased for {_WAIT_S:.0f} s: {refused}\n{cluster.logs()}")


def _join(client: httpx.Client, topic: str) -> int:
    """The member keeps what it has when it joins again."""
    ask = {"client_id": "c", "member_id": "m", "topics": [topic], "mode": "shared"}
    return int(_checked(client.post(f"/groups/{topic}/join", json=ask))["generation"])


def _take(client: httpx.Client, group: str, generation: int, limit: int) -> list[str]:
    query = {"member_id": "m", "generation": str(generation), "limit": str(limit), "visibility_timeout": "1h"}
    return [one["receipt"] for one in _checked(client.get(f"/groups/{group}/poll", params=query))["messages"]]


def _checked(answer: httpx.Response) -> dict[str, Any]:
    if answer.is_error:
        raise httpx.HTTPError(answer.text)
    found: dict[str, Any] = answer.json()
    return found
