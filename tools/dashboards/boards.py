"""The five dashboards."""

from __future__ import annotations

from typing import Final

from tools.dashboards.panels import Board, Panel, Query, Row
from tools.dashboards.recording import TARGET, WINDOWS, zero

_NODE: Final = 'instance=~"$instance"'
_TOPIC: Final = 'topic=~"$topic"'
_GROUP: Final = 'group=~"$group"'
_INSTANCES: Final = ("instance", "label_values(goqueue_build_info, instance)")
_TOPICS: Final = ("topic", "label_values(goqueue_broker_high_watermark, topic)")
_GROUPS: Final = ("group", "label_values(goqueue_consumer_members, group)")
_RATE: Final = "$__rate_interval"


def _rate(name: str, labels: str = _NODE, by: str = "") -> str:
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({name}{{{labels}}}[{_RATE}]))"


def _quantile(share: float, name: str, labels: str = _NODE, by: str = "") -> str:
    grouped = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, sum by ({grouped}) (rate({name}_bucket{{{labels}}}[{_RATE}])))"


def _latency(title: str, name: str, text: str = "", labels: str = _NODE) -> Panel:
    shares = ((0.5, "median"), (0.99, "99 %"), (0.999, "99.9 %"))
    return Panel(title, [Query(_quantile(share, name, labels), legend) for share, legend in shares], "s", text=text)


def _stat(title: str, expr: str, unit: str = "short", text: str = "", of_cluster: bool = False) -> Panel:
    return Panel(title, [Query(expr)], unit, "stat", text, of_cluster)


def _line(
    title: str, expr: str, legend: str = "", unit: str = "short", text: str = "", of_cluster: bool = False
) -> Panel:
    return Panel(title, [Query(expr, legend)], unit, "timeseries", text, of_cluster)


def boards() -> list[Board]:
    return [overview(), consumers(), cluster(), slo(), pipeline()]


def overview() -> Board:
    now = Row(
        "Now",
        [
            _stat("Nodes that answer", 'sum(up{job="goqueue"})'),
            _stat("Nodes that take work", "sum(goqueue_node_ready)"),
            _stat("Messages in", _rate("goqueue_broker_messages_published_total"), "cps"),
            _stat("Bytes in", _rate("goqueue_broker_bytes_published_total"), "Bps"),
            _stat("Bytes out", _rate("goqueue_broker_bytes_fetched_total"), "Bps"),
            _stat("Fullest disk", f"max(goqueue_storage_disk_used_ratio{{{_NODE}}})", "percentunit"),
        ],
    )
    log = Row(
        "Log",
        [
            _line(
                "Messages in, by topic",
                f"topk(10, {_rate('goqueue_broker_messages_published_total', _NODE, 'topic')})",
                "{{topic}}",
                "cps",
            ),
            _line(
                "Bytes out, by topic",
                f"topk(10, {_rate('goqueue_broker_bytes_fetched_total', _NODE, 'topic')})",
                "{{topic}}",
                "Bps",
            ),
            _latency("Publish", "goqueue_broker_publish_seconds", "From a batch's arrival to its answer."),
            _latency("Group commit", "goqueue_storage_sync_seconds"),
            _line(
                "Publishes refused",
                zero(_rate("goqueue_broker_publish_errors_total", _NODE, "code")),
                "{{code}}",
                "cps",
            ),
            _line("Reads refused", zero(_rate("goqueue_broker_fetch_errors_total", _NODE, "code")), "{{code}}", "cps"),
            _line(
                "Largest logs",
                f"topk(10, sum by (topic) (goqueue_storage_log_size_bytes{{{_NODE}}}))",
                "{{topic}}",
                "bytes",
            ),
            _line(
                "Messages per batch",
                f"{_rate('goqueue_broker_messages_published_total')} "
                f"/ clamp_min({_rate('goqueue_broker_batches_published_total')}, 1e-9)",
            ),
        ],
    )
    doors = Row(
        "Doors",
        [
            Panel(
                "Requests",
                [
                    Query(zero(_rate(f"goqueue_{door}_requests_total")), door)
                    for door in ("kafka", "rest", "sqs", "grpc")
                ],
                "reqps",
            ),
            _line(
                "REST, 99 % by route", _quantile(0.99, "goqueue_rest_request_seconds", _NODE, "route"), "{{route}}", "s"
            ),
            _line("Kafka, 99 % by API", _quantile(0.99, "goqueue_kafka_request_seconds", _NODE, "api"), "{{api}}", "s"),
            _line(
                "Kafka's errors",
                zero(_rate("goqueue_kafka_errors_total", _NODE, "api, code")),
                "{{api}} {{code}}",
                "cps",
            ),
            _line("REST by status", _rate("goqueue_rest_requests_total", _NODE, "status"), "{{status}}", "reqps"),
            Panel(
                "Connections",
                [
                    Query(f"sum(goqueue_kafka_connections{{{_NODE}}})", "kafka"),
                    Query(f"sum by (door) (goqueue_http_connections{{{_NODE}}})", "{{door}}"),
                ],
            ),
            _line(
                "Refused by access control",
                zero(_rate("goqueue_security_denied_total", _NODE, "operation, resource")),
                "{{operation}} {{resource}}",
                "cps",
            ),
            _line(
                "Over a quota",
                zero(_rate("goqueue_throttled_total", _NODE, "door, limit")),
                "{{door}} {{limit}}",
                "cps",
            ),
            _line(
                "Connections refused",
                zero(_rate("goqueue_kafka_connections_refused_total", _NODE, "why")),
                "{{why}}",
                "cps",
            ),
        ],
    )
    process = Row(
        "Process",
        [
            _line("Processor", f"rate(process_cpu_seconds_total{{{_NODE}}}[{_RATE}])", "{{instance}}", "percentunit"),
            _line("Memory", f"process_resident_memory_bytes{{{_NODE}}}", "{{instance}}", "bytes"),
            _line(
                "Event loop late, 99 %",
                _quantile(0.99, "goqueue_loop_lag_seconds", _NODE, "instance"),
                "{{instance}}",
                "s",
            ),
            _line(
                "Garbage collection",
                f"sum by (instance) (rate(goqueue_gc_seconds_sum{{{_NODE}}}[{_RATE}]))",
                "{{instance}}",
                "percentunit",
            ),
            _line("Files open", f"process_open_fds{{{_NODE}}}", "{{instance}}"),
            _line("Free disk", f"goqueue_storage_disk_free_bytes{{{_NODE}}}", "{{instance}}", "bytes"),
            _line("Traced events", _rate("goqueue_traces_spans_recorded_total"), "recorded", "cps"),
            _line(
                "Schemas checked",
                zero(_rate("goqueue_schemas_validations_total", _NODE, "result")),
                "{{result}}",
                "cps",
            ),
        ],
    )
    return Board(
        "goqueue-overview", "GoQueue / Overview", "Is everything well?", [now, log, doors, process], [_INSTANCES]
    )


def consumers() -> Board:
    chosen = f"{_GROUP},{_TOPIC}"
    both = "{{group}} {{topic}}"
    groups = Row(
        "Groups",
        [
            _line("Lag in messages", f"topk(20, goqueue:consumer_lag:group{{{chosen}}})", both),
            _line(
                "Lag in seconds",
                f"topk(20, max by (group, topic) (goqueue_consumer_lag_seconds{{{chosen}}}))",
                both,
                "s",
            ),
            _line("Members", f"sum by (group) (goqueue_consumer_members{{{_GROUP}}})", "{{group}}"),
            _line(
                "Rebalances",
                f"sum by (group) (increase(goqueue_consumer_rebalances_total{{{_GROUP}}}[5m]))",
                "{{group}}",
            ),
        ],
    )
    queues = Row(
        "Queues",
        [
            _line("Ready", f"topk(20, sum by (group, topic) (goqueue_queue_ready{{{chosen}}}))", both),
            _line("Under a lease", f"topk(20, sum by (group, topic) (goqueue_queue_in_flight{{{chosen}}}))", both),
            _line(
                "Waiting for another try", f"topk(20, sum by (group, topic) (goqueue_queue_waiting{{{chosen}}}))", both
            ),
            _line(
                "Oldest message",
                f"topk(20, max by (group, topic) (goqueue_queue_oldest_seconds{{{chosen}}}))",
                both,
                "s",
            ),
            _line("Done", _rate("goqueue_queue_acked_total", chosen, "group, topic"), both, "cps"),
            _line("Nacked", _rate("goqueue_queue_nacked_total", chosen, "group, topic"), both, "cps"),
            _line(
                "Leases that ran out", _rate("goqueue_queue_expired_leases_total", chosen, "group, topic"), both, "cps"
            ),
            _line(
                "Dead letters",
                _rate("goqueue_queue_dead_letters_total", chosen, "topic, reason"),
                "{{topic}} {{reason}}",
                "cps",
            ),
        ],
    )
    more = Row(
        "Lanes, delays, transactions",
        [
            _line("Ready, by lane", f"sum by (lane) (goqueue_lane_ready{{{chosen}}})", "{{lane}}"),
            _line("Handed out, by lane", _rate("goqueue_lane_dequeued_total", chosen, "lane"), "{{lane}}", "cps"),
            _line("Delayed messages", "sum(goqueue_delay_pending)", "waiting"),
            _latency("Late after a delay", "goqueue_delay_late_seconds", labels=""),
            _line("Open transactions", "sum(goqueue_transactions_open)", "open"),
            _line("Oldest transaction", "max(goqueue_transactions_oldest_seconds)", "oldest", "s"),
            Panel(
                "Transactions ended",
                [
                    Query(_rate(f"goqueue_transactions_{end}_total", ""), end)
                    for end in ("committed", "aborted", "timed_out")
                ],
                "cps",
            ),
            _line("Redriven", "sum(increase(goqueue_delivery_redriven_total[5m]))", "redriven"),
        ],
    )
    text = "Who is behind, and what is stuck?"
    return Board("goqueue-consumers", "GoQueue / Consumers", text, [groups, queues, more], [_GROUPS, _TOPICS])


def cluster() -> Board:
    now = Row(
        "Now",
        [
            _stat("Nodes alive", 'max(goqueue_cluster_nodes{state="alive"})'),
            _stat("Nodes gone", 'max(goqueue_cluster_nodes{state="gone"})'),
            _stat("Controllers", "sum(goqueue_cluster_is_controller)"),
            _stat("Offline", "max(goqueue_cluster_offline)"),
            _stat("Below the minimum", "sum(goqueue_cluster_below_minimum)"),
            _stat("Under-replicated", "sum(goqueue_cluster_under_replicated)"),
        ],
    )
    shards = Row(
        "Shards",
        [
            _line("Led", "goqueue_cluster_shards_led", "{{instance}}"),
            _line("Followed", "goqueue_cluster_shards_followed", "{{instance}}"),
            _line("Elections", "max(increase(goqueue_cluster_leader_changes_total[5m]))", "leaders changed"),
            _line("Elections that lost messages", "max(goqueue_cluster_unclean_elections_total)", "since the start"),
            _line(
                "Replicas missing",
                "sum by (shard) (goqueue_cluster_replicas - goqueue_cluster_in_sync_replicas)",
                "{{shard}}",
            ),
            _line("At the minimum", "sum(goqueue_cluster_at_minimum)", "shards"),
        ],
    )
    replication = Row(
        "Replication and the metadata store",
        [
            _line(
                "Behind, in messages",
                "max by (node) (goqueue_cluster_replication_lag_messages)",
                "node {{node}}",
                of_cluster=True,
            ),
            _line(
                "Behind, in seconds",
                "max by (node) (goqueue_cluster_replication_lag_seconds)",
                "node {{node}}",
                "s",
                of_cluster=True,
            ),
            _latency("Commits to the store", "goqueue_cluster_store_seconds", labels=""),
            _line(
                "Store out of reach",
                "sum by (instance) (increase(goqueue_cluster_store_failures_total[5m]))",
                "{{instance}}",
            ),
            _line(
                "Segments mended",
                "sum by (instance) (increase(goqueue_storage_segments_mended_total[1h]))",
                "{{instance}}",
            ),
            _line(
                "Damage found", "sum by (instance) (increase(goqueue_storage_damaged_ranges_total[1h]))", "{{instance}}"
            ),
        ],
    )
    return Board(
        "goqueue-cluster", "GoQueue / Cluster", "Who leads, who follows, who is missing?", [now, shards, replication]
    )


def slo() -> Board:
    budget = 1 - TARGET
    kinds = (("errors", "Requests that fail"), ("slow", "Publishes that take longer than 50 ms"))
    burning = [
        Panel(
            title,
            [Query(f"goqueue:slo_{kind}:ratio_rate{window} / {budget:.4g}", window) for window in WINDOWS],
            text="How many times as fast the error budget is spent as it may be: 1 lasts 30 days, 14.4 two days.",
        )
        for kind, title in kinds
    ]
    now = [
        _stat("Answered, last hour", "1 - goqueue:slo_errors:ratio_rate1h", "percentunit"),
        _stat("Fast, last hour", "1 - goqueue:slo_slow:ratio_rate1h", "percentunit"),
        _stat("Publish, 99 %", "goqueue:publish_seconds:p99_5m", "s"),
        _stat("Messages in", "sum(goqueue:messages_published:rate5m)", "cps"),
    ]
    spent = [
        _line(
            f"Budget left over the range: {title.lower()}",
            f"1 - avg_over_time(goqueue:slo_{kind}:ratio_rate5m[$__range]) / {budget:.4g}",
            "left",
            "percentunit",
        )
        for kind, title in kinds
    ]
    text = f"{TARGET:.1%} of requests are answered, and {TARGET:.1%} of publishes take at most 50 ms."
    return Board(
        "goqueue-slo", "GoQueue / SLO", text, [Row("Now", now), Row("Burn rate", burning), Row("Budget", spent)]
    )


def pipeline() -> Board:
    chosen = 'pipeline=~"$pipeline"'
    by = "{{pipeline}}"
    runs = Row(
        "Runs",
        [
            _stat("Runs", f"sum(goqueue_pipeline_runs_total{{{chosen}}})"),
            _stat("Failed", f"sum(goqueue_pipeline_failures_total{{{chosen}}})"),
            _stat("Warnings", f"sum(goqueue_pipeline_warnings_total{{{chosen}}})"),
            _stat("Rows written", f"sum(goqueue_pipeline_rows_out_total{{{chosen}}})"),
        ],
    )
    over_time = Row(
        "Over time",
        [
            _line(
                "Since the last run",
                f"time() - max by (pipeline) (goqueue_pipeline_last_run_timestamp_seconds{{{chosen}}})",
                by,
                "s",
            ),
            _line("Last run", f"max by (pipeline) (goqueue_pipeline_last_run_seconds{{{chosen}}})", by, "s"),
            _line("Rows read", f"sum by (pipeline) (increase(goqueue_pipeline_rows_in_total{{{chosen}}}[1h]))", by),
            _line("Rows written", f"sum by (pipeline) (increase(goqueue_pipeline_rows_out_total{{{chosen}}}[1h]))", by),
            _line("Batches", f"sum by (pipeline) (increase(goqueue_pipeline_batches_total{{{chosen}}}[1h]))", by),
            _line(
                "Time spent", f"sum by (pipeline) (increase(goqueue_pipeline_seconds_total{{{chosen}}}[1h]))", by, "s"
            ),
            Panel("Numbers of the last run", [Query(f"goqueue_pipeline_fact{{{chosen}}}")], kind="table"),
        ],
    )
    variables = [("pipeline", "label_values(goqueue_pipeline_runs_total, pipeline)")]
    return Board(
        "goqueue-pipeline", "GoQueue / Pipeline", "Do the pipelines on the lake run?", [runs, over_time], variables
    )
