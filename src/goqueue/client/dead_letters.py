"""Dead letters as Python users have them, and the requests for them. Perform a call with either client's `perform`."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.client.calls import RestCall, check_topic
from goqueue.client.messages import Headers, HeaderValues, headers_of_json, to_bytes


class Origin(msgspec.Struct, frozen=True):
    """The message that died."""

    topic: str
    partition: int
    offset: int
    group: str
    timestamp: int


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dead letter as the broker sends it; `content` and `header_pairs` are its bytes."""

    partition: int
    offset: int
    key: str | None
    value: str | None
    headers: HeaderValues
    priority: str
    reason: str
    error: str
    origin: Origin | None
    attempts: int
    failures: int
    first_delivered_at: int | None
    died_at: int | None
    redrives: int
    encoding: str | None = None
    key_encoding: str | None = None

    @property
    def content(self) -> tuple[bytes | None, bytes | None]:
        """Key and value."""
        return to_bytes(self.key, self.key_encoding), to_bytes(self.value, self.encoding)

    @property
    def header_pairs(self) -> Headers:
        return headers_of_json(self.headers)


class DeadLetters(msgspec.Struct, frozen=True):
    """A page. `next` is the cursor of the next one, None at the end."""

    topic: str
    messages: list[DeadLetter]
    next: str | None


class Redrive(msgspec.Struct, frozen=True):
    """How a redrive stands."""

    id: str
    source: str
    to: str | None
    state: str
    total: int
    looked_at: int
    matched: int
    moved: int
    skipped: dict[str, int]
    failed: int
    failure: str
    rate: int | None
    limit: int | None
    moved_per_second: float
    eta_ms: int | None
    started: int
    finished: int | None

    @property
    def is_live(self) -> bool:
        return self.state in ("running", "cancelling")


class DryRun(msgspec.Struct, frozen=True):
    """What a redrive would do."""

    dry_run: bool
    matched: int
    would_move: int
    by_reason: dict[str, int]
    skipped: dict[str, int]


def dead_letters(topic: str, query: dict[str, str]) -> RestCall[DeadLetters]:
    """Query: limit, cursor, reason, group, from, to, header."""
    return RestCall("GET", _path(topic), _reader(DeadLetters), query)


def dead_letter(topic: str, partition: int, offset: int) -> RestCall[DeadLetter]:
    return RestCall("GET", f"{_path(topic)}/{partition}/{offset}", _reader(DeadLetter))


def delete_dead_letter(topic: str, partition: int, offset: int) -> RestCall[None]:
    return RestCall("DELETE", f"{_path(topic)}/{partition}/{offset}", lambda status, body: None)


def redrive(topic: str, asked: dict[str, object]) -> RestCall[Redrive]:
    """Body: filter, rate, to, limit."""
    return RestCall("POST", f"{_path(topic)}/redrive", _reader(Redrive), body=msgspec.json.encode(asked))


def dry_run(topic: str, asked: dict[str, object]) -> RestCall[DryRun]:
    body = msgspec.json.encode({**asked, "dry_run": True})
    return RestCall("POST", f"{_path(topic)}/redrive", _reader(DryRun), body=body)


def redrive_progress(topic: str, task_id: str) -> RestCall[Redrive]:
    return RestCall("GET", f"{_path(topic)}/redrive/{task_id}", _reader(Redrive))


def cancel_redrive(topic: str, task_id: str) -> RestCall[Redrive]:
    return RestCall("DELETE", f"{_path(topic)}/redrive/{task_id}", _reader(Redrive))


def _path(topic: str) -> str:
    return f"/topics/{check_topic(topic)}/dlq"


def _reader(kind: Any) -> Any:
    decoder = msgspec.json.Decoder(kind)
    return lambda status, body: decoder.decode(body)
