"""Recording rules: what dashboards and alerts ask for often, and what takes several metrics to say."""

from __future__ import annotations

from typing import Final, NamedTuple

# An error of the broker, not of who asked: these spend the error budget.
FAULTS: Final = "|".join(
    (
        "disk-full",
        "internal",
        "not-enough-replicas",
        "not-loaded",
        "out-of-resources",
        "replicas-timed-out",
        "storage-failed",
        "store-out-of-reach",
        "too-few-have-it",
    )
)
WINDOWS: Final = ("5m", "30m", "1h", "6h")
TARGET: Final = 0.999  # of requests that are answered, and of publishes that are fast
FAST_S: Final = "0.05"


class Recording(NamedTuple):
    """A series that Prometheus keeps."""

    record: str
    expr: str

    def rule(self) -> dict[str, str]:
        return {"record": self.record, "expr": self.expr}


def zero(expr: str) -> str:
    """0 where nothing was counted yet."""
    return f"({expr} or vector(0))"


def _total(window: str) -> str:
    doors = ("rest", "sqs", "grpc", "kafka")
    return " + ".join(zero(f"sum(rate(goqueue_{door}_requests_total[{window}]))") for door in doors)


def _failed(window: str) -> str:
    return " + ".join(
        (
            zero(f'sum(rate(goqueue_rest_requests_total{{status=~"5.."}}[{window}]))'),
            zero(f'sum(rate(goqueue_sqs_requests_total{{error=~"Internal.*|ServiceUnavailable"}}[{window}]))'),
            zero(
                f'sum(rate(goqueue_grpc_requests_total{{status=~"INTERNAL|UNAVAILABLE|UNKNOWN|DATA_LOSS"}}[{window}]))'
            ),
            zero(f'sum(rate(goqueue_broker_publish_errors_total{{code=~"{FAULTS}"}}[{window}]))'),
            zero(f'sum(rate(goqueue_broker_fetch_errors_total{{code=~"{FAULTS}"}}[{window}]))'),
        )
    )


def _of_window(window: str) -> list[Recording]:
    bucket, count = "goqueue_broker_publish_seconds_bucket", "goqueue_broker_publish_seconds_count"
    fast = f'sum(rate({bucket}{{le="{FAST_S}"}}[{window}])) / clamp_min(sum(rate({count}[{window}])), 1e-9)'
    return [
        Recording(f"goqueue:slo_errors:ratio_rate{window}", f"({_failed(window)}) / clamp_min({_total(window)}, 1e-9)"),
        Recording(
            f"goqueue:slo_slow:ratio_rate{window}", f"(1 - {fast}) and sum(rate({count}[{window}])) > 0 or vector(0)"
        ),
    ]


def recordings() -> list[Recording]:
    return [
        Recording(
            "goqueue:consumer_lag:messages",
            "clamp_min(max by (topic, partition) (goqueue_broker_high_watermark) "
            "- on (topic, partition) group_right () "
            "max by (group, topic, partition) (goqueue_consumer_committed_offset), 0)",
        ),
        Recording("goqueue:consumer_lag:group", "sum by (group, topic) (goqueue:consumer_lag:messages)"),
        Recording(
            "goqueue:messages_published:rate5m", "sum by (topic) (rate(goqueue_broker_messages_published_total[5m]))"
        ),
        Recording(
            "goqueue:publish_seconds:p99_5m",
            "histogram_quantile(0.99, sum by (le) (rate(goqueue_broker_publish_seconds_bucket[5m])))",
        ),
        *(one for window in WINDOWS for one in _of_window(window)),
    ]
