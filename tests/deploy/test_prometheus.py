"""Prometheus scrapes real nodes: every panel and recording rule shows something, and alerts fire by real faults."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.cluster_process import ClusterProcess
from bench.node_process import NodeProcess
from tests.certificates import Authority
from tests.deploy.load import Load, pipeline_page
from tests.deploy.prometheus import Prometheus
from tests.waiting import has_come, wait_until
from tools.dashboards.boards import boards
from tools.dashboards.recording import recordings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
_VARIABLE = re.compile(r"\$(instance|topic|group|pipeline)\b")


def asked(of_cluster: bool) -> list[str]:
    """Every expression, as Grafana sends it for an hour with everything chosen."""
    panels = [panel for board in boards() for panel in board.panels() if of_cluster or not panel.of_cluster]
    exprs = [query.expr for panel in panels for query in panel.queries] + [one.record for one in recordings()]
    return [_VARIABLE.sub(".+", one).replace("$__rate_interval", "15s").replace("$__range", "1h") for one in exprs]


def shows_everything(prometheus: Prometheus, load: Load, of_cluster: bool) -> None:
    missing = asked(of_cluster)

    def all_seen() -> bool:
        load.step()
        missing[:] = [expr for expr in missing if not prometheus.ask(expr)]
        return not missing

    came = has_come(all_seen)
    assert came, "nothing is shown by:\n" + "\n".join(missing)
    assert prometheus.unhealthy_rules() == {}


def test_every_panel_and_rule_has_something_to_show(node: NodeProcess, tmp_path: Path) -> None:
    with (
        pipeline_page() as pipelines,
        Prometheus(tmp_path / "prometheus", {"goqueue": [node.url], "goqueue-pipeline": [pipelines]}) as prometheus,
        closing(Load(node)) as load,
    ):
        shows_everything(prometheus, load, of_cluster=False)
        letters = "GoQueueDeadLetters"
        wait_until(lambda: letters in prometheus.firing(), prometheus.firing)


@contextmanager
def watched(root: Path, *flags: str, **settings: str) -> Iterator[tuple[NodeProcess, Prometheus]]:
    """A node with settings of its own, and a Prometheus that has seen it."""
    with (
        NodeProcess(root / "data", *flags, settings=settings) as node,
        Prometheus(root / "prometheus", {"goqueue": [node.url]}) as prometheus,
    ):
        wait_until(lambda: prometheus.ask('up{job="goqueue"} == 1'), "a scrape")
        yield node, prometheus


def test_a_killed_node_is_told(tmp_path: Path) -> None:
    with watched(tmp_path) as (node, prometheus):
        assert "GoQueueNodeDown" not in prometheus.firing()
        node.kill()
        wait_until(lambda: "GoQueueNodeDown" in prometheus.firing(), prometheus.firing)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with watched(tmp_path, GOQUEUE_LOG_DISK_USED_PERCENT_MAX="1") as (_, prometheus):
        wait_until(lambda: {"GoQueueDiskFull", "GoQueueNodeNotReady"} <= prometheus.firing(), prometheus.firing)


def test_a_group_that_is_behind_is_told_by_the_age_of_its_messages(tmp_path: Path) -> None:
    with watched(tmp_path) as (node, prometheus):
        httpx.post(f"{node.url}/topics", json={"name": "orders"}).raise_for_status()
        producer = Producer({"bootstrap.servers": node.kafka})
        hour_ago = round((time.time() - 3600) * 1000)
        for _ in range(3):
            producer.produce("orders", b"v", partition=0, timestamp=hour_ago)
        assert producer.flush(60) == 0
        with closing(Consumer({"bootstrap.servers": node.kafka, "group.id": "slow"})) as consumer:
            consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        wait_until(lambda: "GoQueueConsumerBehind" in prometheus.firing(), prometheus.firing)
        [lag] = prometheus.ask('goqueue_consumer_lag_seconds{group="slow"}')
        assert 3600 <= float(lag["value"][1]) < 3600 + 600
        [behind] = wait_until(lambda: prometheus.ask('goqueue:consumer_lag:group{group="slow"}'), "the rule's round")
        assert behind["value"][1] == "2"


def test_a_certificate_that_ends_soon_is_told(tmp_path: Path) -> None:
    files = Authority(tmp_path / "ca").sign("node")
    tls = {"GOQUEUE_REST_TLS_CERT_FILE": str(files.cert), "GOQUEUE_REST_TLS_KEY_FILE": str(files.key)}
    with watched(tmp_path, **tls) as (_, prometheus):
        wait_until(lambda: "GoQueueCertificateExpires" in prometheus.firing(), prometheus.firing)
        assert "GoQueueCertificateExpired" not in prometheus.firing()


@pytest.mark.xdist_group("cluster")
def test_a_cluster_of_three_shows_everything_and_tells_of_a_node_that_died(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path / "cluster") as cluster, pipeline_page() as pipelines:
        urls = [node.url for node in cluster.nodes]
        jobs = {"goqueue": urls, "goqueue-pipeline": [pipelines]}
        with Prometheus(tmp_path / "prometheus", jobs) as prometheus, closing(Load(cluster.nodes[0])) as load:
            shows_everything(prometheus, load, of_cluster=True)
            assert not {"GoQueueNodeDown", "GoQueueNodeGone", "GoQueueShardUnderReplicated"} & prometheus.firing()
            cluster.kill(2)
            expected = {"GoQueueNodeDown", "GoQueueNodeGone", "GoQueueShardUnderReplicated"}
            wait_until(lambda: expected <= prometheus.firing(), prometheus.firing)
