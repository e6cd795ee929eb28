"""Numbers to an OpenTelemetry collector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from goqueue.base.otlp_settings import MetricSettings
from goqueue.drive.otlp_http import SCOPE, OtlpConnection, resource_of

_PATH: Final = "/v1/metrics"


class MetricPoints(NamedTuple):
    """Points of one family, as OTLP's JSON has them. `kind` is `sum`, `gauge` or `histogram`, `form` what all share."""

    name: str
    text: str
    kind: str
    form: dict[str, Any]
    points: list[dict[str, Any]]


class MetricSender:
    """To one collector. `instance` is this node's name, the same after a restart."""

    def __init__(self, settings: MetricSettings, instance: str) -> None:
        self._connection = OtlpConnection(settings.otlp_endpoint, settings.otlp_headers, _PATH)
        self._resource = resource_of(instance)

    def send(self, families: Sequence[MetricPoints]) -> None:
        self._connection.post(encode(families, self._resource), sum(len(one.points) for one in families))


def encode(families: Sequence[MetricPoints], resource: dict[str, Any]) -> bytes:
    """An `ExportMetricsServiceRequest`."""
    metrics = [
        {"name": one.name, "description": one.text, one.kind: {**one.form, "dataPoints": one.points}}
        for one in families
    ]
    scope = {"scope": SCOPE, "metrics": metrics}
    return msgspec.json.encode({"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]})
