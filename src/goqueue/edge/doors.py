"""Where the node's doors are, as told to somebody who came through one of them."""

from __future__ import annotations

import socket
from typing import Final

import msgspec

Address = tuple[str, int]
KAFKA: Final = "kafka"
KAFKA_EXTERNAL: Final = "kafka_external"  # the second listener of Kafka's door
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})


class DoorAddresses(msgspec.Struct, frozen=True):
    """The addresses that are listened at; None for a door that is shut. `advertised` is what Kafka's clients are told,
    `tls` the doors that speak it, `external` the second listener of Kafka's door.

    A door that listens everywhere is where the asker reached the node: `reached` is the host of that.
    """

    rest: Address | None = None
    kafka: Address | None = None
    sqs: Address | None = None
    advertised: str = ""
    tls: frozenset[str] = frozenset()
    grpc: Address | None = None
    external: Address | None = None
    external_advertised: str = ""
    host: str = ""  # of doors that listen everywhere, for the other nodes

    @property
    def is_rest_everywhere(self) -> bool:
        return self.rest is not None and self.rest[0] in _WILDCARDS

    def told(self, is_one_machine: bool = False) -> dict[str, str]:
        """What the other nodes of a cluster tell their clients. A door that listens everywhere is at this machine; if
        all nodes are, Kafka's is told without a host: it is where the client reached one of them."""
        here = self.host or socket.gethostname()
        there = "" if is_one_machine else here
        found = {KAFKA: self.kafka_address(there), KAFKA_EXTERNAL: self.external_address(there)} | {
            name: None if at is None else _seen(at, here)
            for name, at in (("rest", self.rest), ("sqs", self.sqs), ("grpc", self.grpc))
        }
        return {name: address for name, address in found.items() if address is not None}

    def scheme(self, door: str) -> str:
        return "https" if door in self.tls else "http"

    def rest_url(self, reached: str) -> str | None:
        return None if self.rest is None else f"{self.scheme('rest')}://{_seen(self.rest, reached)}"

    def kafka_address(self, reached: str) -> str | None:
        return None if self.kafka is None else self.advertised or _seen(self.kafka, reached)

    def external_address(self, reached: str) -> str | None:
        return None if self.external is None else self.external_advertised or _seen(self.external, reached)

    def all(self, reached: str) -> dict[str, str]:
        """Those that are open, by name."""
        found = {
            "rest": self.rest_url(reached),
            KAFKA: self.kafka_address(reached),
            KAFKA_EXTERNAL: self.external_address(reached),
            "sqs": self.sqs_url(reached),
            "grpc": self.grpc_address(reached),
        }
        return {name: address for name, address in found.items() if address is not None}

    def grpc_address(self, reached: str) -> str | None:
        return None if self.grpc is None else _seen(self.grpc, reached)

    def sqs_url(self, reached: str) -> str | None:
        return None if self.sqs is None else f"{self.scheme('sqs')}://{_seen(self.sqs, reached)}"


def _seen(at: Address, reached: str) -> str:
    host = reached if at[0] in _WILDCARDS else at[0]
    return f"[{host}]:{at[1]}" if ":" in host else f"{host}:{at[1]}"
