"""Metrics pushed to a collector: the same numbers as on the page, and a collector that fails harms nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from prometheus_client.parser import text_string_to_metric_families

from bench.node_process import NodeProcess
from goqueue.base.otlp_settings import otlp_mistakes
from goqueue.service.metric_points import SLICE_MAX, CountedTimes, slices
from goqueue.service.metric_series import Family, SeriesFamily
from tests.traces.collector import Collector, collecting
from tests.traces.lives import make_topic, publish
from tests.waiting import wait_until

SECRET = "Bearer do-not-tell"


def settings(url: str) -> dict[str, str]:
    told = {"ENDPOINT": url, "HEADERS": f"authorization={SECRET},x-team=shop", "INTERVAL_MS": "1s"}
    return {f"GOQUEUE_METRICS_OTLP_{name}": value for name, value in told.items()}


def labels(point: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


def of_topic(collector: Collector, name: str, topic: str) -> float:
    """The last that came."""
    found = [one.as_double for one in collector.points().get(name, []) if labels(one) == {"topic": topic}]
    return found[-1] if found else 0.0


def shown(http: httpx.Client) -> dict[str, float]:
    """The series of the page that have no labels."""
    families = text_string_to_metric_families(http.get("/metrics").text)
    return {one.name: one.value for family in families for one in family.samples if not one.labels}


def test_a_collector_gets_what_the_page_shows(tmp_path: Path) -> None:
    with collecting() as collector, NodeProcess(tmp_path / "data", settings=settings(collector.url)) as node:
        with httpx.Client(base_url=node.url) as http:
            make_topic(http, "t", trace="on")
            for _ in range(3):
                publish(http, "t")
            wait_until(lambda: of_topic(collector, "goqueue_broker_messages_published", "t") == 3)
            page = shown(http)
        families = {one.name: one for request in collector.metrics for one in whole(request)}
        on_page = {one.removesuffix("_total").removesuffix("_bucket") for one in page}
        assert on_page - set(families) <= {f"{name}_{part}" for name in families for part in ("sum", "count")}
        counter = families["goqueue_broker_messages_published"].sum
        assert counter.is_monotonic and counter.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
        assert families["goqueue_broker_topics"].gauge.data_points[0].as_double == page["goqueue_broker_topics"]
        seconds = collector.points()["goqueue_broker_publish_seconds"][-1]
        assert seconds.count == sum(seconds.bucket_counts) == 3 and seconds.sum > 0
        assert len(seconds.bucket_counts) == len(seconds.explicit_bounds) + 1
        assert len(seconds.exemplars[0].trace_id) == 16, "to the trace of a publish"
        assert seconds.start_time_unix_nano < seconds.time_unix_nano
        resource = {
            one.key: one.value.string_value for one in collector.metrics[0].resource_metrics[0].resource.attributes
        }
        assert resource["service.name"] == "goqueue" and resource["service.instance.id"].endswith("/0")
        assert collector.headers[0]["authorization"] == SECRET and collector.headers[0]["x-team"] == "shop"
    assert SECRET not in node.stderr


def whole(request: Any) -> list[Any]:
    return list(request.resource_metrics[0].scope_metrics[0].metrics)


def test_a_failing_collector_is_asked_again_and_what_failed_is_counted(tmp_path: Path) -> None:
    with collecting(status=503) as collector:
        node = NodeProcess(tmp_path / "data", settings=settings(collector.url))
        with node, httpx.Client(base_url=node.url) as http:
            wait_until(lambda: shown(http)["goqueue_metrics_otlp_rounds_skipped_total"] >= 1)
            assert shown(http)["goqueue_metrics_otlp_failures_total"] >= 1
            assert shown(http)["goqueue_metrics_otlp_points_exported_total"] == 0
            collector.status = 200
            wait_until(lambda: shown(http)["goqueue_metrics_otlp_points_exported_total"] > 100)
            collector.status = 400
            wait_until(lambda: shown(http)["goqueue_metrics_otlp_points_dropped_total"] > 100)
            collector.status, collector.answer = 200, b'{"partialSuccess": {"rejectedDataPoints": "3"}}'
            collector.metrics.clear()
        assert collector.metrics, "the last round goes out when the node stops"
    assert "metrics cannot be exported" in node.stderr and SECRET not in node.stderr


def test_points_come_in_slices_of_bounded_size() -> None:
    rows = [((f"topic-{number}",), "", float(number)) for number in range(2 * SLICE_MAX + 1)]
    family = SeriesFamily(Family("goqueue_broker_messages_published", "Messages stored.", True), ("topic",), rows)
    found = list(slices([family], CountedTimes(1, 2)))
    assert [len(one.points) for one in found] == [SLICE_MAX, SLICE_MAX, 1]
    assert {one.name for one in found} == {"goqueue_broker_messages_published"}
    rows = [(("t",), "", float("nan")), (("u",), "", float("-inf"))]
    gauge = SeriesFamily(Family("goqueue_x", "No numbers."), ("topic",), rows)
    assert [point["asDouble"] for point in next(slices([gauge], CountedTimes(1, 2))).points] == ["NaN", "-Infinity"]


def test_headers_and_urls_that_cannot_be_sent_are_told_at_the_start_without_their_secrets() -> None:
    assert otlp_mistakes("metrics", "https://host:4318/x", "a=b, c=d") == []
    for url, headers in (
        ("http://host:99999", ""),
        ("ftp://host", ""),
        ("", "=s3cret"),
        ("", "a=s3cret\nx"),
        ("", "s3cret"),
    ):
        mistakes = otlp_mistakes("metrics", url, headers)
        assert len(mistakes) == 1 and "s3cret" not in mistakes[0]
