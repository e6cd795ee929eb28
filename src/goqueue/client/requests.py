"""Requests and replies: a message that names the topic where its answer is waited for, and which of them it is."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Unpack

from goqueue.client.errors import GoQueueClientError
from goqueue.client.messages import Content, HeadersIn, Message, MessageFields

if TYPE_CHECKING:
    from goqueue.client.async_client import AsyncClient
    from goqueue.client.client import Client

REPLY_TO: Final = "reply-to"
CORRELATION_ID: Final = "correlation-id"
_KEPT_MS: Final = 3_600_000  # of a topic whose program died before it could delete it
_WAIT_SECONDS_MAX: Final = 10.0


class NoReply(GoQueueClientError):
    """Nobody answered in time; the request may still be done."""

    def __init__(self, topic: str, seconds: float) -> None:
        super().__init__("no-reply", f"No reply to the request in {topic} came within {seconds:g} s.")


class Requester:
    """`with client.requester() as ask:` has a topic for its replies, which is deleted at the end. From one thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topic = f"replies.{uuid.uuid4().hex}"
        self._offset = 0

    def __enter__(self) -> Requester:
        self._client.create_topic(self._topic, 1, {"retention.ms": _KEPT_MS})
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self._client.delete_topic(self._topic)

    def request(self, topic: str, value: Content, *, timeout: float = 30.0, **fields: Unpack[MessageFields]) -> Message:
        """Sends a message and waits for its reply; `NoReply` if none comes within `timeout` seconds."""
        name = uuid.uuid4().hex
        fields["headers"] = _asking(fields.get("headers", ()), self._topic, name)
        self._client.publish(topic, value, **fields)
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            page = self._client.read(
                self._topic, partition=0, offset=self._offset, timeout=min(left, _WAIT_SECONDS_MAX)
            )
            self._offset = page.next_offset or self._offset
            for message in page.messages:
                if message.header(CORRELATION_ID) == name.encode():
                    return message
        raise NoReply(topic, timeout)


class AsyncRequester:
    """The same for programs on asyncio, from one task."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._topic = f"replies.{uuid.uuid4().hex}"
        self._offset = 0

    async def __aenter__(self) -> AsyncRequester:
        await self._client.create_topic(self._topic, 1, {"retention.ms": _KEPT_MS})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._client.delete_topic(self._topic)

    async def request(
        self, topic: str, value: Content, *, timeout: float = 30.0, **fields: Unpack[MessageFields]
    ) -> Message:
        """Sends a message and waits for its reply; `NoReply` if none comes within `timeout` seconds."""
        name = uuid.uuid4().hex
        fields["headers"] = _asking(fields.get("headers", ()), self._topic, name)
        await self._client.publish(topic, value, **fields)
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            page = await self._client.read(
                self._topic, partition=0, offset=self._offset, timeout=min(left, _WAIT_SECONDS_MAX)
            )
            self._offset = page.next_offset or self._offset
            for message in page.messages:
                if message.header(CORRELATION_ID) == name.encode():
                    return message
        raise NoReply(topic, timeout)


def reply_place(message: Message) -> tuple[str, Mapping[str, Content]]:
    """Where the reply to a message goes, and its headers; `no-reply-to` if the message asks for none."""
    topic = message.header(REPLY_TO)
    if topic is None:
        raise GoQueueClientError("no-reply-to", "The message does not say where its reply goes.", "message")
    return topic.decode(), {CORRELATION_ID: message.header(CORRELATION_ID)}


def _asking(headers: HeadersIn, topic: str, name: str) -> dict[str, Content]:
    given = dict(headers.items() if isinstance(headers, Mapping) else headers)
    return {**given, REPLY_TO: topic, CORRELATION_ID: name}
