"""Dead letters as Python users have them, and the requests for them. Perform a call with either client's `perform`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

import msgspec

from goqueue.api.dead_letters import DeadLetterOut, DeadLetterPage, RedriveProgress
from goqueue.api.dead_letters import DryRun as DryRun
from goqueue.client.calls import RestCall, check_topic
from goqueue.client.messages import Headers, Moment, headers_of_json, moment, to_bytes


class DeadLetter(DeadLetterOut, frozen=True, omit_defaults=True):
    """A dead letter as the broker sends it; `content` and `header_pairs` are its bytes."""

    @property
    def content(self) -> tuple[bytes | None, bytes | None]:
        """Key and value."""
        return to_bytes(self.key, self.key_encoding), to_bytes(self.value, self.encoding)

    @property
    def header_pairs(self) -> Headers:
        return headers_of_json(self.headers)


class DeadLetters(DeadLetterPage, frozen=True):
    """A page. `next` is the cursor of the next one, None at the end."""

    messages: list[DeadLetter]  # type: ignore[assignment]


class Redrive(RedriveProgress, frozen=True):
    """How a redrive stands."""

    @property
    def is_live(self) -> bool:
        return self.state in ("running", "cancelling")


class DeadLetterQuery(TypedDict, total=False):
    """Which dead letters; all that are given have to fit."""

    limit: int
    cursor: str
    reason: str
    group: str
    from_: Moment
    to: Moment
    header: str


class RedriveFilter(TypedDict, total=False):
    """Which of them are redriven."""

    reason: str
    group: str
    from_: Moment
    to: Moment
    headers: dict[str, str]


class RedriveOptions(TypedDict, total=False):
    """`rate` is messages a second, `to` another topic, `limit` the most that are moved."""

    filter: RedriveFilter
    rate: int
    to: str
    limit: int


def query_of(given: DeadLetterQuery) -> dict[str, str]:
    return {name.rstrip("_"): str(_plain(value, name)) for name, value in given.items()}


def body_of(given: RedriveOptions) -> dict[str, object]:
    chosen = {name.rstrip("_"): _plain(value, name) for name, value in given.get("filter", {}).items()}
    return {**given, **({"filter": chosen} if chosen else {})}


def _plain(value: Any, name: str) -> object:
    return moment(value, name) if isinstance(value, datetime) else value


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
