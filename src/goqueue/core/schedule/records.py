"""What stands in the schedule log. Each kind has its own keys, so that compaction keeps what is still needed.

An entry's key holds its own offset and lives until its tombstone, which says in a header what became of it. A firing is
noted before its messages enter their log and lives until they are safe there. A repeating entry's next time and count
stand in a record of their own beside it.
"""

from __future__ import annotations

import struct
from typing import Final, Literal, TypeAlias

import msgspec

from goqueue.base.commands import Headers, Repeat
from goqueue.base.ids import Millis, Offset

State = Literal["pending", "delivered", "cancelled", "expired"]

_ENDED_HEADER: Final = "ended"
_KEY: Final = struct.Struct(">cq")


class OriginBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The producer's batch that an entry was taken out of, and where the rest of it goes: without it, it never came."""

    offset: Offset
    producer_id: int
    producer_epoch: int
    base_sequence: int


class ScheduleEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that waits. Without a `timestamp_ms` it gets the time at which it is delivered."""

    topic_id: str
    partition: int
    due_ms: Millis
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: Millis | None = None
    ttl_ms: Millis | None = None
    accepted_ms: Millis = 0
    repeat: Repeat | None = None
    origin: OriginBatch | None = None
    mark: str = ""  # of the transaction that it was part of

    @property
    def size(self) -> int:
        """About the bytes that it takes."""
        headers = sum(20 + len(name) + len(value or b"") for name, value in self.headers)
        return 200 + len(self.key or b"") + len(self.value or b"") + headers


class Firing(msgspec.Struct, frozen=True, array_like=True):
    """These entries (offset, count) are about to enter a log that ends here.

    Older versions delivered without the broker's producer id: then the header alone says that a message is there.
    """

    topic_id: str
    partition: int
    end_offset: Offset
    entries: list[tuple[Offset, int]]
    has_producer_id: bool = False


class NextDue(msgspec.Struct, frozen=True, array_like=True):
    """When a repeating entry is due next, and how often it fired."""

    offset: Offset
    topic_id: str
    partition: int
    due_ms: Millis
    count: int


class EntryEnded(msgspec.Struct, frozen=True, array_like=True):
    """What became of an entry."""

    offset: Offset
    topic_id: str
    partition: int
    due_ms: Millis
    state: State
    ended_ms: Millis


class NextEnded(msgspec.Struct, frozen=True, array_like=True):
    """The record of a repeating entry's next time is needed no more."""

    offset: Offset


class Fired(msgspec.Struct, frozen=True, array_like=True):
    """All messages of a firing are safe in their log."""

    offset: Offset


ScheduleRecord: TypeAlias = ScheduleEntry | Firing | NextDue | NextEnded | EntryEnded | Fired
Encoded: TypeAlias = tuple[bytes, bytes | None, Headers]

_encode = msgspec.msgpack.Encoder().encode
_entry = msgspec.msgpack.Decoder(ScheduleEntry)
_firing = msgspec.msgpack.Decoder(Firing)
_next = msgspec.msgpack.Decoder(NextDue)
_ended = msgspec.msgpack.Decoder(EntryEnded)


def encode_record(record: ScheduleRecord, at: Offset) -> Encoded:
    """Key, value and headers of a record that will stand at that offset."""
    match record:
        case ScheduleEntry():
            return _KEY.pack(b"e", at), _encode(record), ()
        case Firing():
            return _KEY.pack(b"f", at), _encode(record), ()
        case NextDue():
            return _KEY.pack(b"n", record.offset), _encode(record), ()
        case EntryEnded():
            return _KEY.pack(b"e", record.offset), None, ((_ENDED_HEADER, _encode(record)),)
        case Fired():
            return _KEY.pack(b"f", record.offset), None, ()
        case NextEnded():
            return _KEY.pack(b"n", record.offset), None, ()


def decode_record(key: bytes | None, value: bytes | None, headers: Headers) -> ScheduleRecord | None:
    """None if it says nothing (any more) or cannot be read."""
    if key is None or len(key) != _KEY.size:
        return None
    kind, offset = _KEY.unpack(key)
    try:
        if kind == b"e":
            if value is not None:
                return _entry.decode(value)
            return next((_ended.decode(told or b"") for name, told in headers if name == _ENDED_HEADER), None)
        if kind == b"f":
            return Fired(offset) if value is None else _firing.decode(value)
        return _next.decode(value) if kind == b"n" and value is not None else None
    except msgspec.MsgspecError:
        return None
