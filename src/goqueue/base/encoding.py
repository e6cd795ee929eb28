"""Commands and replies as bytes, for a port that leads to another process or node.

Errors are values of replies. One travels as its word, its text and what else it says, and is the same word again.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from goqueue.base.commands import OnceResult, PublishedOnce, PublishResult, ScheduledAt, StoredAt
from goqueue.base.decoders import converted, learning
from goqueue.base.errors import GoQueueError

T = TypeVar("T")


class EncodedError(msgspec.Struct, frozen=True):
    """An error word. `detail` holds plain values only."""

    code: str
    message: str
    field: str | None
    detail: dict[str, Any]


def _encode_error(value: object) -> EncodedError:
    if isinstance(value, GoQueueError):
        return EncodedError(value.code, value.message, value.field, value.detail)
    raise NotImplementedError(f"{type(value).__name__} has no place in a command or a reply")


def _decode_error(kind: type, value: Any) -> GoQueueError:
    return _error_of(converted(value, EncodedError))


def _error_of(encoded: EncodedError) -> GoQueueError:
    error = _word(encoded.code)(encoded.message, field=encoded.field)
    error.detail = encoded.detail
    return error


def _word(code: str) -> type[GoQueueError]:
    """Of a word that this node does not know only the text is left."""
    unseen: list[type[GoQueueError]] = [GoQueueError]
    while unseen:
        word = unseen.pop()
        if word.code == code:
            return word
        unseen += word.__subclasses__()
    return GoQueueError


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_error)
_maps = msgspec.msgpack.Decoder(list[dict[str, Any]])


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    with learning:
        return msgspec.msgpack.Decoder(kind, dec_hook=_decode_error)


def encode(value: object) -> bytes:
    """Any command, any reply, or a list of them."""
    return _encoder.encode(value)


def decode(data: bytes, kind: type[T]) -> T:
    """The command or reply again; `msgspec.DecodeError` if it is none of this kind."""
    key: Any = kind
    found: T = _decoder(key).decode(data)
    return found


def decode_results(data: bytes) -> list[PublishResult]:
    """The results of a publish."""
    return [_result(one, ScheduledAt if "deliver_at_ms" in one else StoredAt) for one in _maps.decode(data)]


def decode_once_results(data: bytes) -> list[OnceResult]:
    """The results of a `PublishOnce`."""
    return [_result(one, PublishedOnce) for one in _maps.decode(data)]


def _result(encoded: dict[str, Any], kind: type[T]) -> T | GoQueueError:
    """Kinds are told apart by what they have: a tag would show in every answer of REST."""
    return _error_of(converted(encoded, EncodedError)) if "code" in encoded else converted(encoded, kind)
