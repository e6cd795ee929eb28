"""What is known about one API of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from goqueue.format.batch import Buffer


class DecodeRequest(Protocol):
    """Raises `TooManyElements` where the arrays of a request have more elements in all than allowed."""

    def __call__(self, version: int, buffer: memoryview, at: int, elements_max: int = ...) -> Any: ...


class Api(msgspec.Struct, frozen=True):
    """One request and its response, in every version we speak.

    Encoders answer with the body as a list of buffers; a records field is in it as the very object given.
    Decoders take a whole frame and where the body starts; the body must end where the frame ends.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    decode_request: DecodeRequest
    encode_response: Callable[[int, Any], list[Buffer]]


class ClientApi(Api, frozen=True):
    """One that our own client asks too: it encodes requests and decodes responses."""

    encode_request: Callable[[int, Any], list[Buffer]]
    decode_response: Callable[[int, memoryview, int], Any]
