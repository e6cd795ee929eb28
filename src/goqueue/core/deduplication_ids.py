"""Each deduplication id once in five minutes: which were used lately, and for which message.

Ids are kept as short digests, oldest first; what is older than the window is forgotten. More than the limit are not
kept: the sender is told to wait, since to forget one would be to let a repetition through.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from goqueue.base.errors import Overloaded
from goqueue.base.ids import Millis

WINDOW_MS: Final = 5 * 60_000


class Used(msgspec.Struct, frozen=True, gc=False):
    """The message that an id was used for; when, by a clock that nobody sets."""

    sent_ms: Millis
    message_id: str
    sequence: int


def key_of(topic_id: str, group: str | None, deduplication_id: str) -> bytes:
    """`group` only where an id counts within its message group. No part can hold a NUL."""
    return blake2b(f"{topic_id}\0{group or ''}\0{deduplication_id}".encode(), digest_size=16).digest()


class DeduplicationIds:
    """The ids of all queues."""

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        self._used: dict[bytes, Used] = {}

    def __len__(self) -> int:
        return len(self._used)

    def find(self, key: bytes, now: Millis) -> Used | None:
        """The message that the id was used for in the last five minutes."""
        used = self._used.get(key)
        return used if used is not None and now - used.sent_ms < WINDOW_MS else None

    def make_room(self, count: int, now: Millis) -> None:
        """Forgets what is old; `Overloaded` if that does not leave room for so many more."""
        for key, used in list(self._oldest(now)):
            if self._used[key] is used:
                del self._used[key]
        if len(self._used) + count > self._ids_max:
            raise Overloaded(
                f"{self._ids_max} deduplication ids were used in the last five minutes, and the node remembers no more "
                "(sqs.deduplication_ids_max); try again in a moment."
            )

    def _oldest(self, now: Millis) -> list[tuple[bytes, Used]]:
        found: list[tuple[bytes, Used]] = []
        for key, used in self._used.items():
            if now - used.sent_ms < WINDOW_MS:
                break
            found.append((key, used))
        return found

    def add(self, key: bytes, used: Used) -> None:
        """The message is stored. A later use of the id takes the place of an earlier one."""
        self._used.pop(key, None)
        self._used[key] = used
