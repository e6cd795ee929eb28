"""Frames between nodes: a length, a kind, the number of the call, and a body. Nothing is believed before it is bounded.

A connection begins with HELLO from who connects and WELCOME, or ERROR, from the other side. Then calls go one way and
replies the other, many at a time, told apart by their numbers.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from goqueue.base.decoders import from_msgpack
from goqueue.base.limits import BATCH_BYTES_MAX, KIB, MIB

HELLO_BYTES_MAX: Final = 16 * KIB
FRAME_BYTES_MAX: Final = BATCH_BYTES_MAX + MIB
PROTOCOL: Final = 1
PROTOCOL_MIN: Final = 1  # of those that this version can speak
_HEAD: Final = struct.Struct(">IBI")
_CALL: Final = struct.Struct(">IB")
_VERB_MAX: Final = 255


class Kind(enum.IntEnum):
    HELLO = 0
    WELCOME = 1
    CALL = 2
    REPLY = 3
    ERROR = 4
    CANCEL = 5


class BadFrame(Exception):
    """What came is none of ours; the connection ends."""


class NodeFrame(NamedTuple):
    kind: Kind
    number: int
    body: bytes


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """Who connects, or who is there. `start` is another one for every start of the node."""

    protocol: int
    cluster_id: str
    node_id: int
    start: str
    version: str


class Call(NamedTuple):
    verb: str
    within_ms: int  # how long the caller waits
    body: bytes


def encode_frame(kind: Kind, number: int, *body: bytes) -> list[bytes]:
    """Pieces, so that a large body is not copied."""
    size = sum(map(len, body))
    if size > FRAME_BYTES_MAX:
        raise BadFrame(f"a frame of {size} bytes is too large")
    return [_HEAD.pack(size + _HEAD.size - 4, kind, number), *body]


def encode_call(number: int, verb: str, within_ms: int, body: bytes) -> list[bytes]:
    name = verb.encode()
    if len(name) > _VERB_MAX:
        raise BadFrame(f"{verb[:40]} is too long for a verb")
    return encode_frame(Kind.CALL, number, _CALL.pack(min(within_ms, 2**32 - 1), len(name)) + name, body)


def decode_call(body: bytes) -> Call:
    if len(body) < _CALL.size:
        raise BadFrame("a call without a verb")
    within_ms, length = _CALL.unpack_from(body)
    verb = body[_CALL.size : _CALL.size + length]
    if len(verb) < length or not verb.isascii():
        raise BadFrame("a call whose verb is cut off")
    return Call(verb.decode(), within_ms, body[_CALL.size + length :])


def encode_hello(hello: Hello) -> bytes:
    return msgspec.msgpack.encode(hello)


def decode_hello(body: bytes) -> Hello:
    try:
        found = from_msgpack(body, Hello)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadFrame(f"not a hello: {error}") from None
    return found


def agreed(theirs: int) -> int | None:
    """The protocol that two nodes speak: the lower of their newest, if both can. Who is newer knows what that lacks."""
    protocol = min(theirs, PROTOCOL)
    return protocol if protocol >= PROTOCOL_MIN else None


class FrameSplitter:
    """Fed what arrives. Frames over the limit end the connection before they are read."""

    def __init__(self, bytes_max: int = HELLO_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._buffer = bytearray()

    @property
    def held(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[NodeFrame]:
        """Whole frames, as far as they go. `BadFrame` for what can be none."""
        self._buffer += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> NodeFrame | None:
        buffer = self._buffer
        if len(buffer) < _HEAD.size:
            return None
        size, kind, number = _HEAD.unpack_from(buffer)
        body = size + 4 - _HEAD.size
        if not 0 <= body <= self.bytes_max or kind > max(Kind):
            raise BadFrame(f"a frame of kind {kind} with {size} bytes")
        if len(buffer) < size + 4:
            return None
        frame = NodeFrame(Kind(kind), number, bytes(memoryview(buffer)[_HEAD.size : size + 4]))
        del buffer[: size + 4]
        return frame
