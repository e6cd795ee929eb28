"""The settings of metrics, and what the settings of any collector of OpenTelemetry have to be."""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

Doc = msgspec.Meta
_URL: Final = re.compile(r"(https?://[^/\s?#]+(/[^\s?#]*)?)?")
_HEADER: Final = re.compile(r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[\t\x20-\x7e]*")


class MetricSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    otlp_endpoint: Annotated[
        str,
        Doc(
            description="URL of an OpenTelemetry collector (OTLP over HTTP) that metrics are pushed to, like "
            "`http://localhost:4318`; empty pushes none."
        ),
    ] = ""
    otlp_headers: Annotated[str, Doc(description="Headers for the collector, `name=value` with commas between.")] = ""
    otlp_interval_ms: Annotated[int, Doc(ge=1_000, description="How often metrics are pushed.")] = 60_000


def otlp_mistakes(section: str, endpoint: str, headers: str) -> list[str]:
    """What is wrong with them. Headers are secrets: none is repeated."""
    found: list[str] = []
    if not _URL.fullmatch(endpoint) or not _has_port(endpoint):
        found.append(f"{section}.otlp_endpoint: is not a URL; write it like http://localhost:4318")
    if not all(_HEADER.fullmatch(pair) for pair in headers.split(",") if pair.strip()):
        found.append(f"{section}.otlp_headers: write name=value, with commas between")
    return found


def _has_port(endpoint: str) -> bool:
    """One that there can be, or none."""
    try:
        return urlsplit(endpoint).port != 0
    except ValueError:
        return False
