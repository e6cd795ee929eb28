"""The cluster on `/metrics`: read on the loop when somebody scrapes, rendered off it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from goqueue.api.cluster import ClusterShard, ClusterState
from goqueue.base.metadata import Change
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import SHARDS
from goqueue.service.cluster_view import ClusterView


class LeaderChanges:
    """How often shards got another leader, or the same one anew, while this node looked."""

    def __init__(self, image: Image) -> None:
        self.count = 0
        self._image = image
        self._epochs: dict[int, int] = {}

    def metadata_changed(self, change: Change) -> None:
        """The image has it already."""
        for entry in change.puts:
            if entry.key.startswith(SHARDS) and entry.key not in self._image.unreadable:
                self._look(int(entry.key.removeprefix(SHARDS)))

    def _look(self, shard: int) -> None:
        epoch = self._image.epoch(shard)
        if epoch != self._epochs.get(shard, epoch):
            self.count += 1
        self._epochs[shard] = epoch


class ClusterCollector:
    """`look` takes the numbers; `collect` shows the last ones taken."""

    def __init__(self, view: ClusterView, changes: LeaderChanges) -> None:
        self._view = view
        self._changes = changes
        self._state: ClusterState | None = None

    def look(self) -> None:
        self._state = self._view.state()

    def collect(self) -> Iterator[Metric]:
        changes = CounterMetricFamily("goqueue_cluster_leader_changes", "Elections of leaders of shards.")
        changes.add_metric((), self._changes.count)
        yield changes
        unclean = CounterMetricFamily(
            "goqueue_cluster_unclean_elections", "Leaders elected that lack acknowledged messages, wherever they are."
        )
        unclean.add_metric((), 0 if self._state is None else sum(one.unclean_elections for one in self._state.shards))
        yield unclean
        if self._state is not None:
            yield from self._of_nodes(self._state)
            yield from self._of_shards(self._state)
            yield from self._replicas(self._state)
            yield from self._lags(self._state)

    def _of_nodes(self, state: ClusterState) -> Iterator[Metric]:
        nodes = GaugeMetricFamily("goqueue_cluster_nodes", "Nodes, by whether they live.", labels=("state",))
        for name in ("alive", "gone"):
            nodes.add_metric((name,), sum(one.state == name for one in state.nodes))
        yield nodes
        yield _gauge("is_controller", "1 on the node that decides who leads.", state.controller == state.node)

    def _of_shards(self, state: ClusterState) -> Iterator[Metric]:
        led = [one for one in state.shards if one.leader == state.node]
        followed = [one for one in state.shards if state.node in one.replicas and one.leader != state.node]
        yield _gauge("shards_led", "Shards that this node leads.", len(led))
        yield _gauge("shards_followed", "Shards that this node holds and does not lead.", len(followed))
        missing = sum(len(one.in_sync) < len(one.replicas) for one in led)
        yield _gauge("under_replicated", "Shards led here of which a replica is not in sync.", missing)
        yield _gauge("at_minimum", "Shards led here that the next lost replica stops.", _count(led, "at-minimum"))
        yield _gauge("below_minimum", "Shards led here with too few in sync to write.", _count(led, "below-minimum"))
        yield _gauge("offline", "Shards that nobody leads, wherever they are.", _count(state.shards, "offline"))

    def _replicas(self, state: ClusterState) -> Iterator[Metric]:
        replicas = GaugeMetricFamily(
            "goqueue_cluster_replicas", "Replicas that a shard led here has.", labels=("shard",)
        )
        in_sync = GaugeMetricFamily(
            "goqueue_cluster_in_sync_replicas", "Replicas of a shard led here that are in sync.", labels=("shard",)
        )
        for one in state.shards:
            if one.leader == state.node:
                replicas.add_metric((str(one.shard),), len(one.replicas))
                in_sync.add_metric((str(one.shard),), len(one.in_sync))
        yield from (replicas, in_sync)

    def _lags(self, state: ClusterState) -> Iterator[Metric]:
        labels = ("shard", "node")
        messages = GaugeMetricFamily(
            "goqueue_cluster_replication_lag_messages", "Messages that a follower has yet to fetch.", labels=labels
        )
        seconds = GaugeMetricFamily(
            "goqueue_cluster_replication_lag_seconds", "How long a follower has not had everything.", labels=labels
        )
        for one in state.shards:
            for node, lag in one.lag.items():
                messages.add_metric((str(one.shard), str(node)), lag.messages)
                seconds.add_metric((str(one.shard), str(node)), lag.ms / 1000)
        yield from (messages, seconds)


def _count(shards: list[ClusterShard], condition: str) -> int:
    return sum(one.condition == condition for one in shards)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(f"goqueue_cluster_{name}", text)
    family.add_metric((), float(value))
    return family
