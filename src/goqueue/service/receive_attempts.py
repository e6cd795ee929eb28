"""Takes of messages that are asked for again: the same attempt id gets the same messages and receipts.

That holds for five minutes, as long as nothing happened to any of the messages; their leases begin anew. A restart
forgets it: then the messages come again when their leases end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.ids import Millis
from goqueue.base.leases import Delivered, Outcome, Take

WINDOW_MS: Final = 5 * 60_000
ATTEMPTS_MAX: Final = 10_000
BYTES_MAX: Final = 64 * 1024 * 1024

Key = tuple[str, str, str | None]  # group, topic, attempt id
Extend = Callable[[Sequence[str], Millis], Awaitable[Sequence[Outcome]]]  # receipts, lease


class _Attempt(msgspec.Struct, frozen=True):
    messages: list[Delivered]
    size: int
    kept_ms: Millis


class ReceiveAttempts:
    """The latest ones, oldest first, within limits."""

    def __init__(self, extend: Extend, clock: SteadyClock) -> None:
        self._extend = extend
        self._clock = clock
        self._kept: dict[Key, _Attempt] = {}
        self._bytes = 0

    async def repeat(self, take: Take, lease_ms: Millis) -> list[Delivered]:
        """The messages of the attempt, leased anew; nothing if there is none or something happened to one of them."""
        attempt = self._kept.get(_key(take))
        if attempt is None or lease_ms <= 0 or self._clock.monotonic_ms() - attempt.kept_ms > WINDOW_MS:
            return []
        outcomes = await self._extend([one.receipt for one in attempt.messages], lease_ms)
        if all(outcome is None for outcome in outcomes):
            return attempt.messages
        self._forget(_key(take))
        return []

    def keep(self, take: Take, messages: list[Delivered]) -> None:
        """What the attempt got."""
        self._forget(_key(take))
        size = sum(len(one.stored.value or b"") for one in messages)
        if messages and size <= BYTES_MAX:
            self._kept[_key(take)] = _Attempt(messages, size, self._clock.monotonic_ms())
            self._bytes += size
        while self._bytes > BYTES_MAX or len(self._kept) > ATTEMPTS_MAX:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        attempt = self._kept.pop(key, None)
        if attempt is not None:
            self._bytes -= attempt.size


def _key(take: Take) -> Key:
    return take.group, take.partitions[0].topic, take.attempt_id
