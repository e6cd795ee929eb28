"""The node itself."""

from __future__ import annotations

import msgspec


class BrokerVersion(msgspec.Struct, frozen=True):
    """Which broker answers."""

    name: str
    version: str
    python: str = ""


class Doors(msgspec.Struct, frozen=True):
    """Where the node's doors are: URLs of REST's and SQS's, `host:port` of Kafka's and gRPC's. One that is shut is
    None."""

    rest: str
    kafka: str | None
    sqs: str | None
    grpc: str | None = None


class HealthOut(msgspec.Struct, frozen=True):
    status: str


class CheckOut(msgspec.Struct, frozen=True):
    ok: bool
    detail: str


class ReadyOut(msgspec.Struct, frozen=True, omit_defaults=True):
    status: str
    checks: dict[str, CheckOut] | None = None
