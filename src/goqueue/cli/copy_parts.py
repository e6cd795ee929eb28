"""What copying is made of: sources that give batches and say where to go on, and sinks that keep batches with that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import unquote

import msgspec

from goqueue.base.decoders import from_json
from goqueue.cli.failures import Misused
from goqueue.client import Message

GROUP_PREFIX: Final = "goqueue-copy-"
_NOTE_BYTES_MAX: Final = 4_096
PlaceKind: TypeAlias = Literal["topic", "context", "url", "kafka", "amqp", "file"]


class CopyBatch(msgspec.Struct, frozen=True):
    """Messages in order, and the position behind them."""

    messages: list[Message]
    position: str


class CopyNote(msgspec.Struct, frozen=True):
    """How far a copy is; it is kept together with what was copied. `source` tells copies apart."""

    source: str
    position: str
    copied: int
    length: int = 0  # of a file

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class CopySource(Protocol):
    def total(self, position: str | None) -> int | None:
        """How many messages are about to come, about; None if nobody knows."""

    def batches(self, position: str | None) -> Iterator[CopyBatch]:
        """All up to where the source ended when this began."""

    def acknowledge(self, count: int) -> None:
        """The sink has this many messages, the first ones, of the last batch."""

    def close(self) -> None: ...


class CopySink(Protocol):
    def note(self) -> CopyNote | None:
        """Of an earlier run."""

    def write(self, messages: Sequence[Message], note: CopyNote) -> None:
        """Returns when they are safe, with the note or neither."""

    def close(self) -> None: ...


class CopyPlace(msgspec.Struct, frozen=True):
    """Where from or where to, as it was typed. `at` is a URL, a context's name, or Kafka's addresses."""

    kind: PlaceKind
    name: str  # a topic, a queue, or a path
    at: str = ""


def parse_place(text: str) -> CopyPlace:
    """`orders`, `context://prod/orders`, `http://host:8080/orders`, `kafka://host:9092/orders`,
    `amqp://host:5672/orders`, `file:path`, `-`."""
    if text == "-" or text.startswith("file:"):
        return CopyPlace("file", text.removeprefix("file:"))
    found = re.fullmatch(r"(context|kafka|amqps?|https?)://([^/]+)/([^/]+)", text)
    if found is None:
        if "/" in text or not text:
            raise Misused(
                f"{text!r} is no place. Write TOPIC, context://NAME/TOPIC, http://HOST:PORT/TOPIC, "
                "kafka://HOST:PORT/TOPIC, amqp://HOST:PORT/QUEUE, file:PATH, or - for standard input and output."
            )
        return CopyPlace("topic", text)
    scheme, at, name = found.groups()
    if "@" in at:
        raise Misused(
            "Keys and passwords do not belong on a command line, where everybody sees them: use a context "
            "(`goqueue context add`), or for Kafka and RabbitMQ a file (--source-config, --target-config)."
        )
    if scheme == "context":
        return CopyPlace("context", name, at)
    if scheme in ("amqp", "amqps"):
        return CopyPlace("amqp", unquote(name), f"{scheme}://{at}")
    return CopyPlace("kafka", name, at) if scheme == "kafka" else CopyPlace("url", name, f"{scheme}://{at}")


def parse_note(text: str | bytes) -> CopyNote | None:
    """None if it is no note."""
    data = text.encode() if isinstance(text, str) else text
    try:
        return from_json(data[:_NOTE_BYTES_MAX], CopyNote) if data else None
    except msgspec.DecodeError:
        return None


def cursor_text(offsets: dict[int, int]) -> str:
    """`0:17,1:4`, as REST has it."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def cursor_offsets(text: str) -> dict[int, int]:
    try:
        return {int(one): int(other) for one, other in (part.split(":") for part in text.split(","))}
    except ValueError:
        raise Misused(f"{text!r} is no position; the copy that left it was of something else.") from None
