"""Stand-ins for a broker, inside the process, for what a real one cannot be made to do on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import msgspec

from goqueue.client import Client, GoQueueClientError, Message, Placed, Scheduled

Answer = httpx.Response | Exception


def offset_of(answer: Placed | Scheduled) -> int:
    """Of a message that was stored at once."""
    assert isinstance(answer, Placed)
    return answer.offset


class Broker:
    """Stores what is published, in one partition a topic. `script` may answer or fail in its place, request by request.

    A scripted answer of None lets the broker answer itself. `gate` holds every answer back until it is set.
    """

    def __init__(self, *script: Answer | None) -> None:
        self.script = list(script)
        self.requests: list[httpx.Request] = []
        self.batches: list[list[str]] = []
        self.acks: list[str] = []
        self.stored: dict[str, list[str]] = {}
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.gate.wait(30)
        self.requests.append(request)
        answer = self.script.pop(0) if self.script else None
        if isinstance(answer, Exception):
            raise answer
        return self._publish(request) if answer is None else answer

    def _publish(self, request: httpx.Request) -> httpx.Response:
        body: dict[str, Any] = msgspec.json.decode(request.content)
        topic = request.url.path.split("/")[2]
        values = [one["value"] for one in body["messages"]]
        self.batches.append(values)
        self.acks.append(body["acks"])
        results = [self._store(topic, value) for value in values]
        status = 207 if any("error" in result for result in results) else 200
        return httpx.Response(status, json={"results": results})

    def _store(self, topic: str, value: str) -> dict[str, Any]:
        if value == "bad":
            return {"error": {"code": "message-too-large", "detail": "Too large.", "field": "messages[0].value"}}
        log = self.stored.setdefault(topic, [])
        log.append(value)
        return {"partition": 0, "offset": len(log) - 1}

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)


def problem(status: int, code: str, detail: str = "No.") -> httpx.Response:
    body = msgspec.json.encode({"type": "about:blank", "status": status, "code": code, "detail": detail})
    return httpx.Response(status, content=body, headers={"content-type": "application/problem+json"})


class Stream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Bytes, and then an end or a failure."""

    def __init__(self, *chunks: bytes, end: Exception | None = None) -> None:
        self._chunks = chunks
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        if self._end is not None:
            raise self._end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        if self._end is not None:
            raise self._end


def events(*chunks: bytes, end: Exception | None = None) -> httpx.Response:
    return httpx.Response(200, stream=Stream(*chunks, end=end), headers={"content-type": "text/event-stream"})


def event(offset: int) -> bytes:
    return b'id: 0:%d\ndata: {"topic":"t","partition":0,"offset":%d,"timestamp":0,"key":null,"value":"v%d"}\n\n' % (
        offset + 1,
        offset,
        offset,
    )


def dead_letters(client: Client, topic: str) -> list[Message]:
    """What is in the dead letters of a topic as soon as there is any; the copy follows the answer that asked for it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if found := client.read(f"{topic}.dlq", timeout=5.0).messages:
                return found
        except GoQueueClientError as why:
            assert why.code == "unknown-topic"
    return []
