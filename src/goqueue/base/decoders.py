"""JSON, MessagePack and plain values as a type, in any thread.

msgspec learns a struct type when it first decodes one. Two threads that do so at once crash the interpreter, as one
sees what the other has not finished. Here each type is learned under a lock before it is used.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

learning = threading.Lock()  # held while msgspec learns a type
_json: dict[Any, msgspec.json.Decoder[Any]] = {}
_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def from_json(data: bytes | str, kind: type[T]) -> T:
    """`msgspec.DecodeError` if it is none of this kind."""
    decoder = _json.get(kind)
    found: T = (_json_decoder(kind) if decoder is None else decoder).decode(data)
    return found


def from_msgpack(data: bytes, kind: type[T]) -> T:
    """The same of MessagePack."""
    decoder = _msgpack.get(kind)
    if decoder is None:
        with learning:
            decoder = _msgpack[kind] = msgspec.msgpack.Decoder(kind)
    found: T = decoder.decode(data)
    return found


def converted(value: object, kind: type[T], strict: bool = True) -> T:
    """The same of plain values."""
    learned(kind)
    return msgspec.convert(value, kind, strict=strict)


def learned(kind: Any) -> None:
    """Whatever `msgspec` raises if it is a type that it cannot make."""
    if kind not in _json:
        _json_decoder(kind)


def _json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    with learning:
        _json[kind] = decoder = msgspec.json.Decoder(kind)
        return decoder
