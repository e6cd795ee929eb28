"""A live tail that outlives its connections: where it stands, and when to try again. No I/O, no clock."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.client import calls, checks
from goqueue.client.calls import RestCall
from goqueue.client.errors import ConnectionFailed, GoQueueClientError, bad_reply, error_of_problem
from goqueue.client.events import EventParser, ServerEvent
from goqueue.client.messages import Message, Moment, decode_message
from goqueue.client.replies import SkippedOffsets
from goqueue.client.retry import backoff

logger = logging.getLogger("goqueue.client")

# A broker that says nothing at all for this long is taken to be gone.
SILENCE_SECONDS_MAX: Final = 60.0
# What a broker ends a stream with when another connection will do.
_PASSING: Final = frozenset({"shutting-down", "not-loaded", "overloaded"})
_PAUSE_LEAST: Final = 0.05
_PAUSE_FIRST: Final = 0.1
_PAUSE_MAX: Final = 5.0


class Tail:
    """Each connection goes on behind the last message handed out, by `Last-Event-ID`."""

    def __init__(self, topic: str, from_: Moment, partition: int | None, patience: float) -> None:
        checks.seconds(patience, "patience")
        self._topic = topic
        self._from = from_
        self._partition = partition
        self._patience = patience
        self._cursor: str | None = None
        self._parser = EventParser()
        self._pause_first = _PAUSE_FIRST
        self._was_connected = False
        self._attempt = 0
        self._lost_at: float | None = None

    def request(self) -> RestCall[None]:
        """What to ask for now."""
        return calls.tail(self._topic, self._from, self._partition, self._cursor)

    def connected(self) -> None:
        """The broker accepted; bytes follow."""
        self._parser = EventParser()
        self._parser.last_id = self._cursor
        self._was_connected = True
        self._lost_at = None

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that these bytes complete; raises what the broker ends the stream with, where it stands."""
        self._attempt = 0
        for event in self._parser.feed(chunk):
            if event.kind == "error":
                raise _error_of(event)
            self._cursor = event.id
            if event.kind == "message":
                yield decode_message(event.data)
            elif event.kind == "skipped":
                logger.warning("%s: %s", self._topic, _skipped_of(event))
        self._cursor = self._parser.last_id
        if self._parser.retry_ms is not None:
            self._pause_first = min(max(self._parser.retry_ms / 1000, _PAUSE_LEAST), SILENCE_SECONDS_MAX)

    def lost(self, why: GoQueueClientError, now: float) -> float:
        """Seconds to wait before connecting again; raises `why` where that is of no use."""
        self._lost_at = now if self._lost_at is None else self._lost_at
        is_passing = isinstance(why, ConnectionFailed) or why.status == 503 or why.code in _PASSING
        if not self._was_connected or not is_passing or now - self._lost_at >= self._patience:
            raise why
        self._attempt += 1
        return backoff(self._pause_first, max(_PAUSE_MAX, self._pause_first), self._attempt)


def _skipped_of(event: ServerEvent) -> SkippedOffsets:
    try:
        return from_json(event.data, SkippedOffsets)
    except msgspec.DecodeError as error:
        raise bad_reply(error) from None


def _error_of(event: ServerEvent) -> GoQueueClientError:
    try:
        problem = from_json(event.data, dict[str, object])
        status = problem.get("status")
        return error_of_problem(status if isinstance(status, int) else None, problem)
    except msgspec.DecodeError as error:
        return bad_reply(error)
