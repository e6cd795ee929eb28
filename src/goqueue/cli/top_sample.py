"""What `goqueue top` looks at: the metrics of every node that answers, put together, and the shards of the cluster.

A partition's gauges are told by leader and followers, so the largest counts once; everything else adds up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from goqueue.api.cluster import ClusterShard
from goqueue.client import Client, GoQueueClientError
from goqueue.client.calls import RestCall
from goqueue.client.cluster import cluster_state

Labels: TypeAlias = tuple[str, ...]
Series: TypeAlias = dict[str, dict[Labels, float]]

# The labels of each family that is looked at, in the order of the keys.
FAMILIES: Final[dict[str, Labels]] = {
    "goqueue_broker_messages_published_total": ("topic",),
    "goqueue_broker_bytes_published_total": ("topic",),
    "goqueue_broker_bytes_fetched_total": ("topic",),
    "goqueue_broker_start_offset": ("topic", "partition"),
    "goqueue_broker_high_watermark": ("topic", "partition"),
    "goqueue_storage_log_size_bytes": ("topic", "partition"),
    "goqueue_consumer_lag": ("group", "topic", "partition"),
    "goqueue_consumer_lag_seconds": ("group", "topic", "partition"),
    "goqueue_consumer_committed_offset": ("group", "topic", "partition"),
    "goqueue_queue_ready": ("group", "topic"),
    "goqueue_queue_in_flight": ("group", "topic"),
    "goqueue_queue_waiting": ("group", "topic"),
    "goqueue_queue_acked_total": ("group", "topic"),
    "goqueue_queue_oldest_seconds": ("group", "topic"),
    "goqueue_lane_ready": ("group", "topic", "lane"),
    "goqueue_lane_in_flight": ("group", "topic", "lane"),
    "goqueue_lane_enqueued_total": ("group", "topic", "lane"),
    "goqueue_lane_dequeued_total": ("group", "topic", "lane"),
}
_LARGEST: Final = {name for name, labels in FAMILIES.items() if "partition" in labels} | {
    "goqueue_queue_oldest_seconds"
}
_PREFIXES: Final = tuple(f"{name}{{" for name in FAMILIES)
_LINES_MAX: Final = 200_000


class TopSample(msgspec.Struct, frozen=True):
    """At one moment, in seconds of a clock that never goes back."""

    at: float
    series: Series
    shards: list[ClusterShard]
    nodes: int
    silent: int  # nodes that did not answer


def parse_metrics(text: str) -> Series:
    """The families that are looked at, of one node."""
    wanted = [line for line in text.splitlines()[:_LINES_MAX] if line.startswith(_PREFIXES)]
    found: Series = {name: {} for name in FAMILIES}
    for family in text_string_to_metric_families("\n".join(wanted) + "\n"):
        for sample in family.samples:
            if sample.name in FAMILIES:
                key = tuple(sample.labels.get(label, "") for label in FAMILIES[sample.name])
                found[sample.name][key] = sample.value
    return found


def put_together(nodes: Iterable[Series]) -> Series:
    """The cluster's."""
    found: dict[str, dict[Labels, float]] = {name: defaultdict(float) for name in FAMILIES}
    for series in nodes:
        for name, values in series.items():
            for key, value in values.items():
                held = found[name]
                held[key] = max(held[key], value) if name in _LARGEST else held[key] + value
    return found


def summed(values: dict[Labels, float], places: slice, largest: bool = False) -> dict[Labels, float]:
    """By some of the labels: added up, or the largest."""
    found: dict[Labels, float] = defaultdict(float)
    for key, value in values.items():
        part = key[places]
        found[part] = max(found[part], value) if largest else found[part] + value
    return found


def take_sample(client: Client, others: dict[str, Client], at: float) -> TopSample:
    """`client` is asked for the cluster; `others` are clients of its other nodes, by their addresses."""
    state = client.perform(cluster_state())
    series = [client.perform(_metrics())]
    silent = 0
    for other in others.values():
        try:
            series.append(other.perform(_metrics()))
        except GoQueueClientError:
            silent += 1
    return TopSample(at, put_together(series), state.shards, len(state.nodes), silent)


def _metrics() -> RestCall[Series]:
    return RestCall("GET", "/metrics", lambda status, body: parse_metrics(body.decode("utf-8", "replace")))
