"""The bytes of the journal: two files of blocks, the first block of each a label, then entries one behind the other.

An entry begins at a block and is written once, with one sync: what a round of the group commit made safe, for each log
its directory, the topic's id, how often the log was cut, and whole batches. Its number counts on for ever; `live_from`
is the number of the oldest entry that was still needed when it was written. So entries of an earlier turn of the file
are known by their numbers, and a number that is missing between the oldest needed one and the newest is damage.

Both files carry the same random key and so does every entry: what a client sends can look like an entry, but not like
one of this journal.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from crc32c import crc32c

FILES: Final = ("journal-0", "journal-1")
BLOCK: Final = 4096
KEY_BYTES: Final = 8
_LABEL: Final = b"GQJL\x00\x00\x00\x01"  # and the format's version
_ENTRY: Final = b"GQJE"
_HEAD: Final = struct.Struct(
    ">4s8sIIQQ"
)  # magic, key, CRC-32C of what follows it, length of the parts, number, live from
_AFTER_CRC: Final = 16
_PART: Final = struct.Struct(">HHIQ")  # bytes of directory, topic id and batches, and the log's cuts
_CRC: Final = struct.Struct(">I")


class JournalPart(msgspec.Struct, frozen=True, gc=False):
    """What an entry holds of one log."""

    directory: str
    topic_id: str
    cuts: int
    batches: bytes | memoryview

    def head(self) -> list[bytes]:
        directory, topic_id = self.directory.encode(), self.topic_id.encode()
        return [_PART.pack(len(directory), len(topic_id), len(self.batches), self.cuts), directory, topic_id]


class JournalEntry(msgspec.Struct, frozen=True):
    """One that was found whole."""

    file: str
    position: int
    size: int
    number: int
    live_from: int
    parts: memoryview


def room_for(parts: Iterable[tuple[str, str, int]]) -> int:
    """The bytes of an entry with parts of these directories, topic ids and sizes, in whole blocks."""
    size = sum(_PART.size + len(directory.encode()) + len(topic_id) + bytes_ for directory, topic_id, bytes_ in parts)
    return _blocks(_HEAD.size + size)


def _blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def encode_entry(key: bytes, number: int, live_from: int, parts: Iterable[JournalPart]) -> bytes:
    """In whole blocks: a block that is written whole need not be read first, and is not written again for the next."""
    body = b"".join(piece for part in parts for piece in (*part.head(), part.batches))
    head = _HEAD.pack(_ENTRY, key, 0, len(body), number, live_from)
    crc = crc32c(body, crc32c(head[_AFTER_CRC:]))
    entry = b"".join((head[: _AFTER_CRC - _CRC.size], _CRC.pack(crc), head[_AFTER_CRC:], body))
    return entry.ljust(_blocks(len(entry)), b"\x00")


def encode_label(key: bytes) -> bytes:
    label = _LABEL + key
    return (label + _CRC.pack(crc32c(label))).ljust(BLOCK, b"\x00")


def read_label(data: bytes) -> bytes | None:
    """The key; None if this is no label."""
    end = len(_LABEL) + KEY_BYTES
    is_label = data.startswith(_LABEL) and len(data) >= BLOCK
    return data[len(_LABEL) : end] if is_label and _CRC.unpack_from(data, end)[0] == crc32c(data[:end]) else None


def entries_of(file: str, data: bytes, key: bytes) -> Iterator[JournalEntry]:
    """Every whole entry, those of an earlier turn too, as far as nothing was written over them."""
    view, position = memoryview(data), BLOCK
    while position < len(data):
        entry = _entry_at(file, view, position, key)
        if entry is not None:
            yield entry
        position += BLOCK if entry is None else entry.size


def _entry_at(file: str, view: memoryview, position: int, key: bytes) -> JournalEntry | None:
    if view[position : position + 12] != _ENTRY + key:
        return None
    _, _, crc, length, number, live_from = _HEAD.unpack_from(view, position)
    begin = position + _HEAD.size
    if begin + length > len(view) or crc32c(view[position + _AFTER_CRC : begin + length]) != crc:
        return None
    return JournalEntry(file, position, _blocks(_HEAD.size + length), number, live_from, view[begin : begin + length])


def has_entries(data: bytes) -> bool:
    """Whether anything that was not written by accident begins a block."""
    return any(data.startswith(_ENTRY, position) for position in range(BLOCK, len(data), BLOCK))


def parts_of(entry: JournalEntry) -> Iterator[JournalPart]:
    at, view = 0, entry.parts
    while at < len(view):
        directory, topic_id, size, cuts = _PART.unpack_from(view, at)
        at += _PART.size
        names = bytes(view[at : at + directory + topic_id])
        at += directory + topic_id
        yield JournalPart(names[:directory].decode(), names[directory:].decode(), cuts, view[at : at + size])
        at += size
