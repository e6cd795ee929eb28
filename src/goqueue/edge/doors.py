"""Where the node's doors are, as told to somebody who came through one of them."""

from __future__ import annotations

import socket
from typing import Final

import msgspec

Address = tuple[str, int]
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})


class DoorAddresses(msgspec.Struct, frozen=True):
    """The addresses that are listened at; None for a door that is shut. `advertised` is what Kafka's clients are told.

    A door that listens everywhere is where the asker reached the node: `reached` is the host of that.
    """

    rest: Address | None = None
    kafka: Address | None = None
    sqs: Address | None = None
    advertised: str = ""

    @property
    def is_rest_everywhere(self) -> bool:
        return self.rest is not None and self.rest[0] in _WILDCARDS

    def told(self) -> dict[str, str]:
        """What the other nodes of a cluster tell their clients. A door that listens everywhere is at this machine."""
        here = socket.gethostname()
        kafka = None if self.kafka is None else self.advertised or _seen(self.kafka, here)
        found = {"kafka": kafka} | {
            name: None if at is None else _seen(at, here) for name, at in (("rest", self.rest), ("sqs", self.sqs))
        }
        return {name: address for name, address in found.items() if address is not None}

    def rest_url(self, reached: str) -> str | None:
        return None if self.rest is None else f"http://{_seen(self.rest, reached)}"

    def kafka_address(self, reached: str) -> str | None:
        return None if self.kafka is None else self.advertised or _seen(self.kafka, reached)

    def all(self, reached: str) -> dict[str, str]:
        """Those that are open, by name."""
        found = {"rest": self.rest_url(reached), "kafka": self.kafka_address(reached), "sqs": self.sqs_url(reached)}
        return {name: address for name, address in found.items() if address is not None}

    def sqs_url(self, reached: str) -> str | None:
        return None if self.sqs is None else f"http://{_seen(self.sqs, reached)}"


def _seen(at: Address, reached: str) -> str:
    host = reached if at[0] in _WILDCARDS else at[0]
    return f"[{host}]:{at[1]}" if ":" in host else f"{host}:{at[1]}"
