"""Takes messages out of a queue of RabbitMQ. They are acknowledged there once the target has them, and not before: a
copy that breaks loses nothing, and may copy some messages twice."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from goqueue.cli.copy_parts import CopyBatch, CopyPlace
from goqueue.cli.failures import Failed, NoAnswer
from goqueue.cli.rabbitmq_config import RabbitLogin, rabbit_login
from goqueue.client import Message
from goqueue.client.messages import Headers

_PAGE: Final = 500
_PAGE_BYTES_MAX: Final = 4 << 20
_PAUSE_S: Final = 0.5
_SILENCE_S_MAX: Final = 30.0
_CONNECT_S_MAX: Final = 20.0
_CRITICAL_FROM: Final = 5
# AMQP's properties that become headers, by their names there.
_PROPERTIES: Final = (
    "content_type",
    "content_encoding",
    "message_id",
    "correlation_id",
    "reply_to",
    "type",
    "app_id",
    "user_id",
    "expiration",
    "priority",
)


class RabbitSource:
    """What is ready in the queue when this begins. `limit` is how many messages will be asked for at most."""

    def __init__(self, place: CopyPlace, config: str | None, limit: int | None) -> None:
        self._queue = place.name
        self._at = place.at
        login = rabbit_login(place.at, config)
        pika = _pika()
        with self._told():
            self._connection: Any = pika.BlockingConnection(_parameters(pika, login))
        try:
            with self._told():
                self._channel: Any = self._connection.channel()
                self._count = self._ready()
        except BaseException:
            self.close()
            raise
        self._wanted = self._count if limit is None else min(limit, self._count)
        self._tags: list[int] = []

    def total(self, position: str | None) -> int:
        return self._count

    def batches(self, position: str | None) -> Iterator[CopyBatch]:
        left = self._wanted
        if not left:
            return
        with self._told():
            self._channel.basic_qos(prefetch_count=min(_PAGE, left))
            arriving = self._channel.consume(self._queue, inactivity_timeout=_PAUSE_S)
        while left:
            with self._told():
                messages = self._gather(arriving, min(_PAGE, left))
            if not messages:
                return
            left -= len(messages)
            yield CopyBatch(messages, "")

    def acknowledge(self, count: int) -> None:
        """RabbitMQ forgets them. It does not confirm that; `close` waits until it has read it."""
        if count:
            with self._told():
                self._channel.basic_ack(self._tags[count - 1], multiple=True)

    def close(self) -> None:
        """What was taken and not acknowledged goes back to its place in the queue."""
        with suppress(_pika().exceptions.AMQPError):
            self._connection.close()

    # --- one batch ----------------------------------------------------------------------------------------

    def _gather(self, arriving: Iterator[tuple[Any, Any, Any]], limit: int) -> list[Message]:
        """Empty if other consumers have taken the rest."""
        found: list[Message] = []
        self._tags, size, silence_s = [], 0, 0.0
        for method, properties, body in arriving:
            if method is None:
                silence_s += _PAUSE_S
                if found or not self._ready():
                    break
                if silence_s >= _SILENCE_S_MAX:
                    raise NoAnswer(f"RabbitMQ at {self._at} hands out nothing of {self._queue!r}; is it a stream?")
                continue
            found.append(message_of(self._queue, method, properties, body))
            self._tags.append(method.delivery_tag)
            size += len(body)
            if len(found) >= limit or size >= _PAGE_BYTES_MAX:
                break
        return found

    def _ready(self) -> int:
        found: int = self._channel.queue_declare(self._queue, passive=True).method.message_count
        return found

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What pika raises, in a line."""
        errors = _pika().exceptions
        try:
            yield
        except errors.ChannelClosedByBroker as error:
            raise Failed(f"RabbitMQ at {self._at} refuses: {error.reply_text} ({error.reply_code})") from None
        except (errors.ProbableAuthenticationError, errors.AuthenticationError, errors.ProbableAccessDeniedError):
            raise Failed(
                f"RabbitMQ at {self._at} refuses the login, or the virtual host. Put username, password and "
                "virtual.host into a file, a NAME=VALUE a line, and give it with --source-config."
            ) from None
        except (errors.AMQPError, OSError) as error:
            why = str(error) or type(error).__name__
            raise NoAnswer(f"RabbitMQ at {self._at}: {why}. Check the address, and whether it wants TLS.") from None


def _pika() -> Any:
    try:
        import pika
        import pika.exceptions
    except ModuleNotFoundError:
        raise Failed(
            "Reading from RabbitMQ needs the package pika, which is not installed. "
            "Install it with pip install 'goqueue[rabbitmq]'."
        ) from None
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # what goes wrong is said once, above
    return pika


def _parameters(pika: Any, login: RabbitLogin) -> Any:
    tls: ssl.SSLContext | None = login.tls
    return pika.ConnectionParameters(
        login.host,
        login.port,
        login.virtual_host,
        pika.PlainCredentials(login.username, login.password),
        ssl_options=None if tls is None else pika.SSLOptions(tls, login.host),
        blocked_connection_timeout=_CONNECT_S_MAX,
        socket_timeout=_CONNECT_S_MAX,
        stack_timeout=_CONNECT_S_MAX,
        client_properties={"connection_name": "goqueue copy"},
    )


# --- messages -----------------------------------------------------------------------------------------


def message_of(queue: str, method: Any, properties: Any, body: bytes) -> Message:
    """Properties and application headers are headers; the time is the sender's, where it says one."""
    stamp = properties.timestamp
    timestamp = -1 if stamp is None else int(stamp) * 1_000
    return Message(queue, 0, 0, timestamp, None, body, _headers(method, properties), priority_name(properties.priority))


def priority_name(number: int | None) -> str:
    """In RabbitMQ a message without a priority has 0, and more is more urgent: none comes before one above it."""
    if not number:
        return "normal"
    return "critical" if number >= _CRITICAL_FROM else "high"


def _headers(method: Any, properties: Any) -> Headers:
    named = [(name.replace("_", "-"), getattr(properties, name)) for name in _PROPERTIES]
    route = [("exchange", method.exchange), ("routing-key", method.routing_key)]
    told = [(name, value) for name, value in (*named, *route) if value not in (None, "")]
    given = properties.headers or {}
    return tuple((name, header_value(value)) for name, value in (*told, *given.items()))


def header_value(value: object) -> bytes | None:
    """Text and bytes as they are, numbers and times as text, tables and lists as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(_plain(value))
    plain = _plain(value)
    return (plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat().replace("+00:00", "Z")
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # pika has a class of its own for those of 64 bits
    return str(value) if isinstance(value, Decimal) else value
