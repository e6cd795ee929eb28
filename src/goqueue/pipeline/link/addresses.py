"""The addresses of Kafka's door, as users write them."""

from __future__ import annotations

from typing import TypeAlias

from goqueue.pipeline.link.errors import PipelineError

Address: TypeAlias = tuple[str, int]


def addresses_of(kafka: str) -> list[Address]:
    """Reads `host:port,host:port`."""
    found = [_address(part.strip()) for part in kafka.split(",") if part.strip()]
    if not found:
        raise PipelineError("No address of a Kafka door was given; set kafka.bootstrap.servers to HOST:PORT.")
    return found


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or "/" in host or not port.isdecimal() or not 0 < int(port) <= 65_535:
        raise PipelineError(f"{text!r} is not the address of a Kafka door; write HOST:PORT, or several with commas.")
    return host, int(port)
