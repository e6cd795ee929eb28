"""The families of `/metrics` as points of OpenTelemetry, in slices of bounded size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, Sample

from goqueue.drive.metric_otlp import MetricPoints
from goqueue.drive.otlp_http import attributes
from goqueue.service.metric_series import SeriesFamily

SLICE_MAX: Final = 250
_CUMULATIVE: Final = {"aggregationTemporality": 2}
_SUM: Final = {**_CUMULATIVE, "isMonotonic": True}
_TRACE_CHARS: Final = 32


class CountedTimes(NamedTuple):
    """Since when it was counted, and until when; since 1970."""

    start_ns: int
    now_ns: int

    def of_a_counter(self) -> dict[str, Any]:
        return {"startTimeUnixNano": str(self.start_ns), "timeUnixNano": str(self.now_ns)}

    def of_a_gauge(self) -> dict[str, Any]:
        return {"timeUnixNano": str(self.now_ns)}


def slices(families: Iterable[Metric], times: CountedTimes) -> Iterator[MetricPoints]:
    """Counters are sums without `_total`, histograms histograms, and all else gauges."""
    for family in families:
        kind, form, points = _points(family, times)
        for start in range(0, len(points), SLICE_MAX):
            part = points[start : start + SLICE_MAX]
            yield MetricPoints(family.name, family.documentation, kind, form, part)


def _points(family: Metric, times: CountedTimes) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    if family.type == "histogram":
        return "histogram", _CUMULATIVE, _histograms(family.samples, times)
    if family.type == "counter":
        return "sum", _SUM, _numbers(family, times.of_a_counter())
    return "gauge", {}, _numbers(family, times.of_a_gauge())


def _numbers(family: Metric, times: dict[str, Any]) -> list[dict[str, Any]]:
    if isinstance(family, SeriesFamily):
        named = ((dict(zip(family.labels, key, strict=True)), value) for key, _, value in family.rows)
    else:
        named = ((one.labels, one.value) for one in family.samples)
    return [{"attributes": attributes(labels), "asDouble": _double(value), **times} for labels, value in named]


def _histograms(samples: Sequence[Sample], times: CountedTimes) -> list[dict[str, Any]]:
    """Prometheus counts what is at most a bound, OpenTelemetry what is between two."""
    found: dict[tuple[tuple[str, str], ...], dict[str, list[Sample]]] = {}
    for one in samples:
        labels = tuple((name, value) for name, value in one.labels.items() if name != "le")
        found.setdefault(labels, {}).setdefault(one.name.rpartition("_")[2], []).append(one)
    return [_histogram(dict(labels), parts, times) for labels, parts in found.items()]


def _histogram(labels: dict[str, str], parts: dict[str, list[Sample]], times: CountedTimes) -> dict[str, Any]:
    buckets = parts["bucket"]
    upto = [int(one.value) for one in buckets]
    return {
        "attributes": attributes(labels),
        **times.of_a_counter(),
        "count": str(upto[-1]),
        "sum": _double(parts["sum"][0].value),
        "explicitBounds": [float(one.labels["le"]) for one in buckets[:-1]],
        "bucketCounts": [str(here - before) for here, before in zip(upto, [0, *upto], strict=False)],
        "exemplars": [_exemplar(one.exemplar) for one in buckets if one.exemplar is not None],
    }


def _exemplar(one: Exemplar) -> dict[str, Any]:
    told: dict[str, Any] = {"asDouble": one.value, "timeUnixNano": str(int(float(one.timestamp or 0) * 1e9))}
    trace = one.labels.get("trace_id", "")
    return told | {"traceId": trace} if len(trace) == _TRACE_CHARS else told


def _double(value: float) -> float | str:
    """JSON has no word for those that are no numbers; Protobuf's JSON has these."""
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
