"""Alerts: what each means is in a section of the runbook, and a series that makes it fire comes with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tools.dashboards.recording import TARGET

RUNBOOK: Final = "docs/runbook.md"
_NODE: Final = '{instance="n1:8080",job="goqueue"}'
_CRITICAL, _WARNING = "critical", "warning"


class Alert(NamedTuple):
    """`fault` and `health` are series for promtool's tests; the alert fires after `at` with `labels` of the fault."""

    name: str
    expr: str
    wait: str
    severity: str
    section: str  # of the runbook
    summary: str
    fault: Mapping[str, str]
    health: Mapping[str, str]
    labels: Mapping[str, str] = {}
    at: str = "30m"

    @property
    def runbook(self) -> str:
        anchor = re.sub(r"[^a-z0-9 -]", "", self.section.lower()).replace(" ", "-")
        return f"{RUNBOOK}#{anchor}"

    def rule(self, wait: str | None = None) -> dict[str, object]:
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.wait if wait is None else wait,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "runbook_url": self.runbook},
        }

    def told(self) -> str:
        """The summary as it is sent for the fault."""
        return re.sub(r"{{ \$labels\.(\w+) }}", lambda found: self.labels.get(found[1], ""), self.summary)


def _gauge(name: str, bad: float, good: float, labels: str = _NODE) -> tuple[dict[str, str], dict[str, str]]:
    return {f"{name}{labels}": f"{bad}+0x60"}, {f"{name}{labels}": f"{good}+0x60"}


def _counter(name: str, labels: str = _NODE) -> tuple[dict[str, str], dict[str, str]]:
    return {f"{name}{labels}": "0+100x60"}, {f"{name}{labels}": "7+0x60"}


def _buckets(name: str, le: str, is_bad: bool, labels: str = "") -> dict[str, str]:
    below = "0+0x60" if is_bad else "0+100x60"
    more = f",{labels}" if labels else ""
    return {f'{name}_bucket{{le="{le}"{more}}}': below, f'{name}_bucket{{le="+Inf"{more}}}': "0+100x60"}


def _slow(name: str, le: str) -> tuple[dict[str, str], dict[str, str]]:
    return {**_buckets(name, le, True), f'{name}_bucket{{le="10.0"}}': "0+100x60"}, _buckets(name, le, False)


_PUBLISHED: Final = "goqueue_broker_publish_seconds"
_BURNS: Final[Mapping[str, tuple[dict[str, str], dict[str, str]]]] = {
    "errors": (
        {
            'goqueue_rest_requests_total{status="500"}': "0+5x60",
            'goqueue_kafka_requests_total{api="Produce"}': "0+95x60",
        },
        {
            'goqueue_rest_requests_total{status="404"}': "0+5x60",
            'goqueue_kafka_requests_total{api="Produce"}': "0+95x60",
        },
    ),
    "slow": (
        {f'{_PUBLISHED}_bucket{{le="0.05"}}': "0+95x60", f"{_PUBLISHED}_count": "0+100x60"},
        {f'{_PUBLISHED}_bucket{{le="0.05"}}': "0+100x60", f"{_PUBLISHED}_count": "0+100x60"},
    ),
}


def _burn(kind: str, name: str, long: str, short: str, times: float, severity: str) -> Alert:
    over = times * (1 - TARGET)
    record = f"goqueue:slo_{kind}:ratio_rate"
    what = "Requests fail" if kind == "errors" else "Publishes are slow"
    fault, health = _BURNS[kind]
    return Alert(
        name,
        f"{record}{long} > {over:.4g} and {record}{short} > {over:.4g}",
        "2m",
        severity,
        "The error budget burns",
        f"{what}: the error budget of 30 days is spent {times:g} times as fast as it may be",
        fault,
        health,
    )


def alerts() -> list[Alert]:
    return [
        *_of_nodes(),
        *_of_the_cluster(),
        *_of_disks(),
        *_of_messages(),
        *_of_security(),
        *_of_slos(),
        *_of_pipelines(),
    ]


def _of_nodes() -> list[Alert]:
    node = {"instance": "n1:8080", "job": "goqueue"}
    return [
        Alert(
            "GoQueueNodeDown",
            'up{job="goqueue"} == 0',
            "1m",
            _CRITICAL,
            "A node is gone",
            "{{ $labels.instance }} does not answer",
            *_gauge("up", 0, 1),
            node,
        ),
        Alert(
            "GoQueueNodeNotReady",
            "goqueue_node_ready == 0",
            "2m",
            _WARNING,
            "A node is not ready",
            "{{ $labels.instance }} takes no work",
            *_gauge("goqueue_node_ready", 0, 1),
            node,
        ),
        Alert(
            "GoQueueLoopLate",
            "histogram_quantile(0.99, sum by (instance, le) (rate(goqueue_loop_lag_seconds_bucket[5m]))) > 0.25",
            "5m",
            _WARNING,
            "The event loop is late",
            "{{ $labels.instance }} answers late, whatever is asked",
            {
                **_buckets("goqueue_loop_lag_seconds", "0.25", True, 'instance="n1:8080"'),
                'goqueue_loop_lag_seconds_bucket{le="1.0",instance="n1:8080"}': "0+100x60",
            },
            _buckets("goqueue_loop_lag_seconds", "0.25", False, 'instance="n1:8080"'),
            {"instance": "n1:8080"},
        ),
        Alert(
            "GoQueueClockStepped",
            "sum by (instance) (increase(goqueue_broker_clock_steps_total[10m])) > 0",
            "0s",
            _WARNING,
            "The clock was set",
            "The clock of {{ $labels.instance }} was set",
            *_counter("goqueue_broker_clock_steps_total", '{instance="n1:8080",direction="back"}'),
            {"instance": "n1:8080"},
        ),
    ]


def _of_the_cluster() -> list[Alert]:
    lag = '{instance="n1:8080",shard="3",node="2"}'
    return [
        Alert(
            "GoQueueShardOffline",
            "max(goqueue_cluster_offline) > 0",
            "30s",
            _CRITICAL,
            "A shard is offline",
            "Shards have no leader",
            *_gauge("goqueue_cluster_offline", 1, 0),
        ),
        Alert(
            "GoQueueShardBelowMinimum",
            "sum(goqueue_cluster_below_minimum) > 0",
            "30s",
            _CRITICAL,
            "A shard is below its minimum",
            "Shards take no writes with acks=all",
            *_gauge("goqueue_cluster_below_minimum", 1, 0),
        ),
        Alert(
            "GoQueueShardUnderReplicated",
            "sum(goqueue_cluster_under_replicated) > 0",
            "10m",
            _WARNING,
            "A shard is under-replicated",
            "Shards lack a replica in sync",
            *_gauge("goqueue_cluster_under_replicated", 1, 0),
        ),
        Alert(
            "GoQueueReplicationBehind",
            "max by (node) (goqueue_cluster_replication_lag_seconds) > 60",
            "5m",
            _WARNING,
            "A shard is under-replicated",
            "Node {{ $labels.node }} does not keep up with its leaders",
            *_gauge("goqueue_cluster_replication_lag_seconds", 90, 0, lag),
            {"node": "2"},
        ),
        Alert(
            "GoQueueNodeGone",
            'max(goqueue_cluster_nodes{state="gone"}) > 0',
            "5m",
            _CRITICAL,
            "A node is gone",
            "A node of the cluster has no session",
            *_gauge("goqueue_cluster_nodes", 1, 0, '{state="gone"}'),
        ),
        Alert(
            "GoQueueLeadersChange",
            "max(increase(goqueue_cluster_leader_changes_total[10m])) > 20",
            "0s",
            _WARNING,
            "Leaders change again and again",
            "Shards change their leaders again and again",
            *_counter("goqueue_cluster_leader_changes_total"),
        ),
        Alert(
            "GoQueueUncleanElection",
            "max(increase(goqueue_cluster_unclean_elections_total[10m])) > 0",
            "0s",
            _CRITICAL,
            "A leader lacks messages",
            "A leader was elected that lacks acknowledged messages",
            *_counter("goqueue_cluster_unclean_elections_total"),
        ),
        Alert(
            "GoQueueStoreSlow",
            "histogram_quantile(0.99, sum by (le) (rate(goqueue_cluster_store_seconds_bucket[5m]))) > 1",
            "5m",
            _WARNING,
            "etcd is out of reach",
            "Commits to the metadata store take longer than a second",
            *_slow("goqueue_cluster_store_seconds", "1.0"),
        ),
        Alert(
            "GoQueueStoreUnreachable",
            "sum by (instance) (increase(goqueue_cluster_store_failures_total[5m])) > 0",
            "1m",
            _CRITICAL,
            "etcd is out of reach",
            "{{ $labels.instance }} does not reach the metadata store",
            *_counter("goqueue_cluster_store_failures_total"),
            {"instance": "n1:8080"},
        ),
    ]


def _of_disks() -> list[Alert]:
    node = {"instance": "n1:8080", "job": "goqueue"}
    log = '{instance="n1:8080",topic="t",partition="0"}'
    return [
        Alert(
            "GoQueueDiskFull",
            "goqueue_storage_writable == 0",
            "0s",
            _CRITICAL,
            "The disk fills up",
            "{{ $labels.instance }} refuses writes",
            *_gauge("goqueue_storage_writable", 0, 1),
            node,
        ),
        Alert(
            "GoQueueDiskFilling",
            "goqueue_storage_disk_used_ratio > 0.85",
            "5m",
            _WARNING,
            "The disk fills up",
            "The disk of {{ $labels.instance }} is nearly full",
            *_gauge("goqueue_storage_disk_used_ratio", 0.9, 0.5),
            node,
        ),
        Alert(
            "GoQueueDiskFullSoon",
            "predict_linear(goqueue_storage_disk_free_bytes[1h], 4 * 3600) < 0",
            "15m",
            _WARNING,
            "The disk fills up",
            "The disk of {{ $labels.instance }} is full within four hours",
            {f"goqueue_storage_disk_free_bytes{_NODE}": "100000-1000x60"},
            {f"goqueue_storage_disk_free_bytes{_NODE}": "100000+0x60"},
            node,
        ),
        Alert(
            "GoQueueLogFailed",
            "sum by (instance) (goqueue_storage_log_failed) > 0",
            "0s",
            _CRITICAL,
            "A log failed",
            "Logs of {{ $labels.instance }} are read-only",
            *_gauge("goqueue_storage_log_failed", 1, 0, log),
            {"instance": "n1:8080"},
        ),
        Alert(
            "GoQueueSyncFails",
            "increase(goqueue_storage_sync_failures_total[5m]) > 0",
            "0s",
            _CRITICAL,
            "A log failed",
            "The disk of {{ $labels.instance }} does not take what is synced",
            *_counter("goqueue_storage_sync_failures_total"),
            node,
        ),
        Alert(
            "GoQueueLogDamaged",
            "increase(goqueue_storage_damaged_ranges_total[1h]) > 0",
            "0s",
            _WARNING,
            "A log is damaged",
            "{{ $labels.instance }} found damage in a log",
            *_counter("goqueue_storage_damaged_ranges_total"),
            node,
        ),
    ]


def _of_messages() -> list[Alert]:
    group = '{instance="n1:8080",group="g",topic="t",partition="0"}'
    queue = '{instance="n1:8080",group="g",topic="t"}'
    dead = '{instance="n1:8080",group="g",topic="t",reason="rejected"}'
    of_both = {"group": "g", "topic": "t"}
    return [
        Alert(
            "GoQueueConsumerBehind",
            "max by (group, topic) (goqueue_consumer_lag_seconds) > 600",
            "5m",
            _WARNING,
            "Consumers fall behind",
            "{{ $labels.group }} is ten minutes behind in {{ $labels.topic }}",
            *_gauge("goqueue_consumer_lag_seconds", 700, 3, group),
            of_both,
        ),
        Alert(
            "GoQueueConsumerLagGrows",
            "goqueue:consumer_lag:group > 100000 and deriv(goqueue:consumer_lag:group[15m]) > 0",
            "15m",
            _WARNING,
            "Consumers fall behind",
            "{{ $labels.group }} falls further behind in {{ $labels.topic }}",
            {'goqueue:consumer_lag:group{group="g",topic="t"}': "200000+1000x60"},
            {'goqueue:consumer_lag:group{group="g",topic="t"}': "200000-1000x60"},
            of_both,
        ),
        Alert(
            "GoQueueQueueOld",
            "max by (group, topic) (goqueue_queue_oldest_seconds) > 3600",
            "5m",
            _WARNING,
            "Consumers fall behind",
            "A message of {{ $labels.topic }} waits for {{ $labels.group }} for an hour",
            *_gauge("goqueue_queue_oldest_seconds", 4000, 3, queue),
            of_both,
        ),
        Alert(
            "GoQueueDeadLetters",
            "sum by (topic, reason) (increase(goqueue_queue_dead_letters_total[10m])) > 0 "
            "or (sum by (topic, reason) (goqueue_queue_dead_letters_total) "
            "unless sum by (topic, reason) (goqueue_queue_dead_letters_total offset 10m)) > 0",
            "0s",
            _WARNING,
            "Dead letters come",
            "Messages of {{ $labels.topic }} are given up: {{ $labels.reason }}",
            *_counter("goqueue_queue_dead_letters_total", dead),
            {"topic": "t", "reason": "rejected"},
        ),
        Alert(
            "GoQueueTransactionHangs",
            "max by (instance) (goqueue_transactions_oldest_seconds) > 900",
            "1m",
            _WARNING,
            "A transaction hangs",
            "A transaction of {{ $labels.instance }} is open for a quarter of an hour",
            *_gauge("goqueue_transactions_oldest_seconds", 1000, 3),
            {"instance": "n1:8080"},
        ),
        Alert(
            "GoQueueDelayedLate",
            "histogram_quantile(0.99, sum by (le) (rate(goqueue_delay_late_seconds_bucket[5m]))) > 2.5",
            "5m",
            _WARNING,
            "Delayed messages are late",
            "Delayed messages come seconds after their time",
            *_slow("goqueue_delay_late_seconds", "2.5"),
        ),
        Alert(
            "GoQueueSchemaMisfits",
            'sum(increase(goqueue_schemas_validations_total{result="failed"}[10m])) > 0',
            "10m",
            _WARNING,
            "Messages do not fit their schema",
            "Messages are refused because they do not fit their schema",
            *_counter("goqueue_schemas_validations_total", '{result="failed"}'),
        ),
    ]


def _of_security() -> list[Alert]:
    expiry, door = "goqueue_security_certificate_expiry_timestamp_seconds", '{instance="n1:8080",door="rest"}'
    labels = {"instance": "n1:8080", "door": "rest"}
    return [
        Alert(
            "GoQueueCertificateExpires",
            f"{expiry} - time() < 7 * 86400 and {expiry} - time() > 0",
            "0s",
            _WARNING,
            "A certificate expires",
            "The certificate of {{ $labels.door }} of {{ $labels.instance }} ends within a week",
            *_gauge(expiry, 86400, 30 * 86400, door),
            labels,
        ),
        Alert(
            "GoQueueCertificateExpired",
            f"{expiry} - time() <= 0",
            "0s",
            _CRITICAL,
            "A certificate expires",
            "The certificate of {{ $labels.door }} of {{ $labels.instance }} is no longer valid",
            *_gauge(expiry, 600, 30 * 86400, door),
            labels,
        ),
        Alert(
            "GoQueueRefusals",
            "sum by (operation, resource) (rate(goqueue_security_denied_total[5m])) > 1",
            "10m",
            _WARNING,
            "Requests are refused",
            "Many have no right to {{ $labels.operation }} a {{ $labels.resource }}",
            *_counter("goqueue_security_denied_total", '{operation="read",resource="topic"}'),
            {"operation": "read", "resource": "topic"},
        ),
    ]


def _of_slos() -> list[Alert]:
    return [
        _burn("errors", "GoQueueErrorsFast", "1h", "5m", 14.4, _CRITICAL),
        _burn("errors", "GoQueueErrorsSlow", "6h", "30m", 6, _WARNING),
        _burn("slow", "GoQueueSlowFast", "1h", "5m", 14.4, _CRITICAL),
        _burn("slow", "GoQueueSlowSlow", "6h", "30m", 6, _WARNING),
    ]


def _of_pipelines() -> list[Alert]:
    lake = '{pipeline="bronze"}'
    return [
        Alert(
            "GoQueuePipelineFails",
            "sum by (pipeline) (increase(goqueue_pipeline_failures_total[30m])) > 0",
            "0s",
            _WARNING,
            "A pipeline fails",
            "Runs of {{ $labels.pipeline }} end with errors",
            *_counter("goqueue_pipeline_failures_total", lake),
            {"pipeline": "bronze"},
        ),
        Alert(
            "GoQueuePipelineSilent",
            "time() - max by (pipeline) (goqueue_pipeline_last_run_timestamp_seconds) > 86400",
            "0s",
            _WARNING,
            "A pipeline fails",
            "{{ $labels.pipeline }} did not run for a day",
            {f"goqueue_pipeline_last_run_timestamp_seconds{lake}": "-90000+0x60"},
            {f"goqueue_pipeline_last_run_timestamp_seconds{lake}": "0+0x60"},
            {"pipeline": "bronze"},
        ),
    ]
