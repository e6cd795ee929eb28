"""Where a message goes: by its key's hash, or in turn. Every door uses this, so all agree on where a key lives."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import mmh3

from goqueue.base.errors import UnknownPartition

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_WORD: Final = 0xFFFFFFFF
_SKIPPED_MAX: Final = 64


@lru_cache(maxsize=65_536)
def murmur2(key: bytes) -> int:
    """Kafka's key hash, as its Java client computes it, with the sign bit cleared."""
    length = len(key)
    h = _SEED ^ length
    whole = length & ~3
    for (k,) in struct.iter_unpack("<I", key[:whole]):
        k = k * _M & _WORD
        k = (k ^ k >> 24) * _M & _WORD
        h = (h * _M & _WORD) ^ k
    if rest := key[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _WORD
    h = (h ^ h >> 13) * _M & _WORD
    return (h ^ h >> 15) & 0x7FFFFFFF


def murmur3(key: bytes) -> int:
    return mmh3.hash(key, signed=False) & 0x7FFFFFFF


_HASHES: Final[dict[str, Callable[[bytes], int]]] = {"murmur2": murmur2, "murmur3": murmur3}


class Partitioner:
    """One topic's choice of partitions. Messages without a key of one publish stay together; the next goes on."""

    __slots__ = ("_hash", "_turn")

    def __init__(self, hash_name: str) -> None:
        self._hash = _HASHES[hash_name]
        self._turn = -1

    def begin_publish(self) -> None:
        """Moves on to the next partition for messages without a key."""
        self._turn += 1

    def skip_to(self, suits: Callable[[int], bool], partitions: int) -> None:
        """On to the next partition that suits, for messages without a key; stays if none of the next few does."""
        for step in range(min(partitions, _SKIPPED_MAX)):
            if suits((self._turn + step) % partitions):
                self._turn += step
                return

    def choose(self, key: bytes | None, explicit: int | None, partitions: int) -> int:
        if explicit is not None:
            if not 0 <= explicit < partitions:
                raise UnknownPartition(
                    f"There is no partition {explicit}; the topic has 0 to {partitions - 1}.", field="partition"
                )
            return explicit
        if key is not None:
            return self._hash(key) % partitions
        return self._turn % partitions
