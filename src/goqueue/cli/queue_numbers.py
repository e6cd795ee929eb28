"""Queues in numbers, as the broker tells them: one entry for each group in each topic, and its lanes."""

from __future__ import annotations

import msgspec

from goqueue.api.delayed import DelayedListOut
from goqueue.base.decoders import from_json
from goqueue.client import Client
from goqueue.client.calls import RestCall, check_topic


class GroupQueue(msgspec.Struct, frozen=True):
    """Of one group in one topic. Counts of what was done are since the group began there."""

    group: str
    topic: str
    ready: int
    in_flight: int
    waiting: int
    acked: int
    nacked: int
    rejected: int
    expired_leases: int
    dead_letters: dict[str, int]


class QueueLane(msgspec.Struct, frozen=True):
    """One priority of one partition. Times are milliseconds since 1970."""

    group: str
    topic: str
    partition: int
    lane: str
    ready: int
    in_flight: int
    waiting: int
    enqueued: int
    dequeued: int
    last_served: int | None = None
    oldest_waiting: int | None = None


class _Queues(msgspec.Struct, frozen=True):
    queues: list[GroupQueue]


class _Lanes(msgspec.Struct, frozen=True):
    lanes: list[QueueLane]


class QueueView(msgspec.Struct, frozen=True):
    """A queue with its lanes. `delayed` is what waits for the topic, whatever the group; `oldest_ms` the age of the
    oldest message that could be taken."""

    counts: GroupQueue
    delayed: int
    oldest_ms: int | None
    lanes: list[QueueLane]


def queue_views(client: Client, topic: str | None, group: str | None, now_ms: int) -> list[QueueView]:
    """All that fit, by group and topic."""
    query = {name: value for name, value in (("topic", topic), ("group", group)) if value is not None}
    read_queues = lambda status, body: from_json(body, _Queues).queues  # noqa: E731
    read_lanes = lambda status, body: from_json(body, _Lanes).lanes  # noqa: E731
    queues = client.perform(RestCall("GET", "/reliability/stats", read_queues, query))
    lanes = client.perform(RestCall("GET", "/priority/stats", read_lanes, query))
    delayed = {name: _delayed(client, name) for name in sorted({one.topic for one in queues})}
    found = []
    for queue in queues:
        mine = [one for one in lanes if (one.group, one.topic) == (queue.group, queue.topic)]
        times = [one.oldest_waiting for one in mine if one.oldest_waiting is not None]
        oldest = max(0, now_ms - min(times)) if times else None
        found.append(QueueView(queue, delayed[queue.topic], oldest, mine))
    return found


def _delayed(client: Client, topic: str) -> int:
    def read(status: int, body: bytes) -> int:
        return from_json(body, DelayedListOut).pending

    return client.perform(RestCall("GET", f"/topics/{check_topic(topic)}/delayed", read, {"limit": "1"}))
