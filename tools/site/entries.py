"""What a user can set, see or call has its entry in the pages that people write; whatever has none stops the build."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

import goqueue.base.startup_errors  # noqa: F401 - so that its words are known
from goqueue.base.errors import leaves
from goqueue.base.settings import setting_keys
from goqueue.base.topic_config import CONFIG_KEYS, TopicConfig, as_text
from goqueue.cli import COMMANDS
from goqueue.wire.api import APIS

_API_VERSIONS: Final = 18


class Offered(NamedTuple):
    """What a running node offers: routes by `/openapi.json`, the text of `/metrics`, versions of Kafka's APIs."""

    described: Mapping[str, Any]
    metrics: str
    kafka: Mapping[str, tuple[int, int]]


def ask(url: str, kafka: str) -> Offered:
    """Of a node that runs. Some metrics are there once something happened."""
    with httpx.Client(base_url=url) as client:
        client.post("/topics", json={"name": "t"})
        client.post("/topics/t/messages", json={"messages": [{"value": "v"}]})
        client.post("/topics/t/messages", json={"messages": [{"value": "v", "partition": 9}]})
        client.get("/topics/t/messages")
        client.get("/topics/t/partitions/0/messages", params={"offset": 77})
        return Offered(client.get("/openapi.json").json(), client.get("/metrics").text, _advertised(kafka))


def _advertised(address: str) -> dict[str, tuple[int, int]]:
    """By an ApiVersions request of version 0: error, then key, lowest and highest version of each API."""
    host, _, port = address.rpartition(":")
    head = struct.pack(">hhih", _API_VERSIONS, 0, 1, -1)
    with socket.create_connection((host, int(port)), timeout=10) as line, line.makefile("rb") as answers:
        line.sendall(struct.pack(">i", len(head)) + head)
        body = answers.read(int.from_bytes(answers.read(4), "big"))
    rows = struct.iter_unpack(">hhh", body[10:])
    return {APIS[key].name: (low, high) for key, low, high in rows}


def missing(docs: Path, offered: Offered) -> list[str]:
    """One line for each thing without an entry, or with a wrong one, beginning with the page."""
    found = [*_settings(docs), *_errors(docs), *_commands(docs), *_routes(docs, offered.described)]
    return [*found, *_metrics(docs, offered.metrics), *_kafka(docs, offered.kafka)]


def _settings(docs: Path) -> Iterator[str]:
    text = (docs / "configuration.md").read_text()
    for key in setting_keys():
        if not re.search(
            rf"^\| `{re.escape(key.dotted)}` \| `{key.variable}` \| `.*?` \| {re.escape(key.doc)} \|$", text, re.M
        ):
            yield f"configuration.md: {key.dotted}"
    for name, value in as_text(TopicConfig()).items():
        if f"| `{name}` | `{value}` | {CONFIG_KEYS[name].doc} |" not in text:
            yield f"configuration.md: {name} of a topic"


def _errors(docs: Path) -> Iterator[str]:
    text = (docs / "rest.md").read_text()
    told = (leaf.code for leaf in leaves() if leaf.__mro__[1].__name__ != "Startup")
    yield from (f"rest.md: error {code}" for code in told if f"`{code}`" not in text)


def _commands(docs: Path) -> Iterator[str]:
    text = (docs / "cli.md").read_text()
    yield from (f"cli.md: goqueue {name}" for name in COMMANDS if not re.search(rf"goqueue {name}\b", text))


def _routes(docs: Path, described: Mapping[str, Any]) -> Iterator[str]:
    text = (docs / "rest.md").read_text()
    routes = (f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods)
    yield from (f"rest.md: {route}" for route in routes if f"`{route}`" not in text)


def _metrics(docs: Path, exported: str) -> Iterator[str]:
    told = set(re.findall(r"^\| `(goqueue_\w+)` \| (\w+) \|", (docs / "metrics.md").read_text(), re.M))
    found = set(re.findall(r"^# TYPE (goqueue_\w+) (\w+)$", exported, re.M))
    yield from (f"metrics.md: {name} ({kind})" for name, kind in sorted(found ^ told))


def _kafka(docs: Path, advertised: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    rows = re.findall(r"\| (\w+) \| (\d+)(?: to (\d+))? (?=\|)", (docs / "kafka.md").read_text())
    told = {name: (int(low), int(high or low)) for name, low, high in rows}
    # Produce is advertised from 0 on, for old clients' sake.
    found = {**advertised, "Produce": (told.get("Produce", (3, 0))[0], advertised["Produce"][1])}
    yield from (f"kafka.md: {name}" for name in sorted(found.keys() | told.keys()) if found.get(name) != told.get(name))
