"""What schemas cost: validation off, in turn with a topic that has no schema; then each kind of schema at work."""

from __future__ import annotations

import io
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from bench.bare_kafka import PARTITIONS
from bench.kafka import _load
from bench.node_process import NodeProcess
from bench.report import Figure
from goqueue.core.schemas.kinds import checker, compare, parse
from goqueue.core.schemas.model import Schema

SIZE = 100
SECONDS = 1.5
ROUNDS = 12  # short and many, so that a slow moment of the machine hits both alike
LOSS_MAX = 0.03
CHECKS = 20_000

JSON_TEXT = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 0},
            "name": {"type": "string", "maxLength": 40},
            "tags": {"type": "array", "items": {"type": "string"}},
            "price": {"type": "number"},
        },
        "required": ["id", "name"],
        "additionalProperties": False,
    }
)
AVRO_TEXT = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": "string"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "price", "type": "double"},
        ],
    }
)
PROTO_TEXT = 'syntax="proto3"; message Order{int64 id=1; string name=2; repeated string tags=3; double price=4;}'
VALUE = {"id": 123456, "name": "a teapot, of porcelain", "tags": ["blue", "old"], "price": 17.5}


def validation_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "schemas") as node:
        for topic, how in (("bare", "none"), ("off", "none"), ("on", "latest")):
            body = {"name": topic, "num_partitions": PARTITIONS, "config": {"schema.validation": how}}
            httpx.post(f"{node.url}/topics", json=body).raise_for_status()
        for topic in ("off", "on"):
            subject = f"{node.url}/subjects/{topic}-value/versions"
            fixed = {"type": "fixed", "name": "Payload", "size": SIZE}
            httpx.post(subject, json={"schema": json.dumps(fixed)}).raise_for_status()
        yield from _cost(node)


def _cost(node: NodeProcess) -> Iterator[Figure]:
    rates: dict[str, list[float]] = {"bare": [], "off": [], "on": []}
    for number in range(ROUNDS):
        for topic in list(rates)[:: 1 if number % 2 else -1]:
            rates[topic].append(_load("produce", node.kafka, topic, SIZE, SECONDS)["rate"])
    yield Figure(f"produce {SIZE}-byte messages, no schema", f"{statistics.median(rates['bare']):,.0f} msg/s")
    loss = 1 - statistics.median(mine / bare for mine, bare in zip(rates["off"], rates["bare"], strict=True))
    yield Figure(
        "  a schema is registered, validation off",
        f"{statistics.median(rates['off']):,.0f} msg/s",
        f"{-loss:+.1%}",
        f"less than {LOSS_MAX:.0%} lost",
        loss < LOSS_MAX,
    )
    yield Figure("  every message checked (Avro)", f"{statistics.median(rates['on']):,.0f} msg/s")


def check_figures(root: Path) -> Iterator[Figure]:
    """Without a node: what one check and one comparison take."""
    for kind, text, data in (
        ("JSON", JSON_TEXT, json.dumps(VALUE).encode()),
        ("AVRO", AVRO_TEXT, _avro()),
        ("PROTOBUF", PROTO_TEXT, _protobuf()),
    ):
        document = parse(Schema(kind, text), {})  # type: ignore[arg-type]
        ready = checker(document)
        one = _microseconds(lambda ready=ready, data=data: ready.check(data), CHECKS)  # type: ignore[misc]
        other = parse(Schema(kind, text.replace("price", "cost")), {})  # type: ignore[arg-type]
        both = _microseconds(lambda one=document, other=other: compare(one, other), 200)  # type: ignore[misc]
        yield Figure(f"check a {len(data)}-byte message, {kind}", f"{one:.1f} us", f"comparing schemas {both:.0f} us")


def _microseconds(work: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times * 1e6


def _avro() -> bytes:
    import fastavro

    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(json.loads(AVRO_TEXT)), VALUE)
    return written.getvalue()


def _protobuf() -> bytes:
    name, tags = str(VALUE["name"]).encode(), (b"blue", b"old")
    parts = [b"\x08\xc0\xc4\x07", b"\x12" + bytes([len(name)]) + name]
    return b"".join([*parts, *(b"\x1a" + bytes([len(tag)]) + tag for tag in tags), b"\x21" + bytes(8)])
