"""What clients of a cluster saw, and what must be true of it whatever happened to the nodes."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Lease(NamedTuple):
    """One message in one hand. It runs at least until `until`: it was not given before it was asked for."""

    message: str
    owner: str
    asked: float
    got: float
    until: float


class Leases:
    """Of one queue, from all its consumers."""

    def __init__(self) -> None:
        self.leases: defaultdict[str, list[Lease]] = defaultdict(list)
        self.done: dict[str, float] = {}  # when an acknowledgement was answered
        self.maybe_done: set[str] = set()
        self._lock = threading.Lock()

    def leased(self, message: str, owner: str, asked: float, got: float, for_s: float) -> None:
        with self._lock:
            self.leases[message].append(Lease(message, owner, asked, got, asked + for_s))

    def joined_again(self, owner: str, asked: float) -> None:
        """Who joins again gives back what it holds."""
        with self._lock:
            for leases in self.leases.values():
                leases[:] = [one._replace(until=min(one.until, asked)) if one.owner == owner else one for one in leases]

    def acked(self, message: str, at: float) -> None:
        with self._lock:
            self.done.setdefault(message, at)

    def maybe_acked(self, message: str) -> None:
        with self._lock:
            self.maybe_done.add(message)

    @property
    def seen(self) -> set[str]:
        with self._lock:
            return set(self.leases)

    def check(self) -> list[str]:
        return [*self._overlaps(), *self._after_acks()]

    def _overlaps(self) -> Iterable[str]:
        for message, leases in self.leases.items():
            ordered = sorted(leases, key=lambda one: one.got)
            for one, following in pairwise(ordered):
                if following.got < one.until:
                    yield f"two leases at once of {message}: {one} and {following}"

    def _after_acks(self) -> Iterable[str]:
        for message, at in self.done.items():
            late = [one for one in self.leases[message] if one.asked > at]
            if late:
                yield f"handed out after it was acknowledged at {at}: {late[0]} of {self.leases[message]}"


class Sends:
    """Messages that were sent once each: acknowledged, or nobody knows."""

    def __init__(self) -> None:
        self.acked: dict[str, str] = {}  # with their keys, in the order of the acknowledgements
        self.unknown: set[str] = set()

    def check(self, name: str, found: Sequence[str]) -> list[str]:
        """`found` are all that are there, in order."""
        counts = Counter(found)
        wrong = [f"{name}: acknowledged and lost: {one}" for one in self.acked if one not in counts]
        wrong += [f"{name}: doubled: {one}" for one, count in counts.items() if count > 1]
        wrong += [f"{name}: never sent: {one}" for one in counts if one not in self.acked and one not in self.unknown]
        return wrong + self._order(name, {one: at for at, one in enumerate(found)})

    def _order(self, name: str, places: Mapping[str, int]) -> list[str]:
        last: dict[str, tuple[int, str]] = {}
        wrong: list[str] = []
        for message, key in self.acked.items():
            place = places.get(message, -1)
            if key in last and 0 <= place < last[key][0]:
                wrong.append(f"{name}: {message} stands before {last[key][1]} of the same key")
            last[key] = max(last.get(key, (-1, "")), (place, message))
        return wrong


class Delays:
    """When delayed messages may come at the earliest, and when they came."""

    def __init__(self) -> None:
        self.earliest_ms: dict[str, float] = {}
        self.seen_ms: dict[str, float] = {}

    def check(self) -> list[str]:
        return [
            f"early by {self.earliest_ms[one] - at:.0f} ms: {one}"
            for one, at in self.seen_ms.items()
            if at < self.earliest_ms.get(one, 0)
        ]


class Transactions:
    """Each has several messages."""

    def __init__(self) -> None:
        self.committed: dict[str, list[str]] = {}
        self.aborted: dict[str, list[str]] = {}
        self.unknown: dict[str, list[str]] = {}

    def check(self, found: Sequence[str]) -> list[str]:
        counts = Counter(found)
        wrong = [f"doubled: {one}" for one, count in counts.items() if count > 1]
        for name, messages in self.committed.items():
            wrong += [f"committed in {name} and lost: {one}" for one in messages if one not in counts]
        for name, messages in self.aborted.items():
            wrong += [f"aborted in {name} and seen: {one}" for one in messages if one in counts]
        for name, messages in self.unknown.items():
            there = [one for one in messages if one in counts]
            if there and len(there) != len(messages):
                wrong.append(f"a part of {name} is there: {there} of {messages}")
        return wrong
