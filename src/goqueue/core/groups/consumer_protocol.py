"""The bytes that Kafka's classic consumers put into their subscriptions and assignments, as far as groups need them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import Final

import msgspec

from goqueue.core.groups.parts import Parts, make

_NEWEST: Final = 3  # version of subscriptions and assignments


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Topics of a consumer's subscription; None if the bytes are something else."""
    try:
        reader = _Reader(metadata)
        return [reader.text() for _ in range(reader.length())]
    except (struct.error, ValueError):
        return None


def assigned_partitions(assignment: bytes) -> Parts:
    """Partitions of a consumer's assignment; none if the bytes are something else."""
    try:
        reader = _Reader(assignment)
        return make([(reader.text(), reader.numbers()) for _ in range(reader.length())])
    except (struct.error, ValueError):
        return {}


class ConsumerSubscription(msgspec.Struct, frozen=True):
    """What a classic consumer says when it joins. `owned` is what it has not given back."""

    version: int
    topics: tuple[str, ...]
    owned: Parts


def parse_subscription(metadata: bytes) -> ConsumerSubscription | None:
    """None if the bytes are something else."""
    try:
        (version,) = struct.unpack_from(">h", metadata)
        reader = _Reader(metadata)
        topics = tuple(sorted({reader.text() for _ in range(reader.length())}))
        reader.skip_bytes()
        owned = make([(reader.text(), reader.numbers()) for _ in range(reader.length())]) if version >= 1 else {}
    except (struct.error, ValueError):
        return None
    return ConsumerSubscription(min(version, _NEWEST), topics, owned) if version >= 0 else None


def encode_assignment(parts: Parts, version: int) -> bytes:
    """As a classic consumer reads it, without user data."""
    data = struct.pack(">hi", version, len(parts))
    for topic, numbers in parts.items():
        name = topic.encode()
        data += struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers)
    return data + struct.pack(">i", -1)


def renamed_subscription(metadata: bytes, rename: Callable[[str], str]) -> bytes:
    """With other names of topics; what cannot be read stays as it is, from there on."""
    made = _Renamer(metadata, rename)
    with contextlib.suppress(struct.error, ValueError):
        made.texts()
        made.copy_bytes()
        if struct.unpack_from(">h", metadata)[0] >= 1:
            made.partitions()
    return made.done()


def renamed_assignment(assignment: bytes, rename: Callable[[str], str]) -> bytes:
    made = _Renamer(assignment, rename)
    with contextlib.suppress(struct.error, ValueError):
        made.partitions()
    return made.done()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2  # past the version

    def length(self) -> int:
        length = self._number(">i", 4)
        if not 0 <= length <= len(self._data):
            raise ValueError("a length that cannot be")
        return length

    def text(self) -> str:
        size = self._number(">h", 2)
        start = self._at
        self._at += size
        if size < 0 or self._at > len(self._data):
            raise ValueError("a text that cannot be")
        return self._data[start : self._at].decode()

    def skip_bytes(self) -> None:
        size = self._number(">i", 4)
        self._at += max(0, size)
        if self._at > len(self._data):
            raise ValueError("bytes that cannot be")

    def numbers(self) -> list[int]:
        return [self._number(">i", 4) for _ in range(self.length())]

    def _number(self, form: str, size: int) -> int:
        (number,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(number)


class _Renamer(_Reader):
    """Reads, and writes what it read anew."""

    def __init__(self, data: bytes, rename: Callable[[str], str]) -> None:
        super().__init__(data)
        self._rename = rename
        self._made = [data[:2]]
        self._copied = 2  # of the data

    def texts(self) -> None:
        for _ in range(self.length()):
            self._text()

    def partitions(self) -> None:
        for _ in range(self.length()):
            self._text()
            self.numbers()

    def copy_bytes(self) -> None:
        self.skip_bytes()

    def _text(self) -> None:
        begin = self._at
        name = self._rename(self.text()).encode()
        self._made += [self._data[self._copied : begin], struct.pack(f">h{len(name)}s", len(name), name)]
        self._copied = self._at

    def done(self) -> bytes:
        return b"".join([*self._made, self._data[self._copied :]])
