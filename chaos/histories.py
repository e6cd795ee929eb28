"""What clients of a cluster saw, and what must be true of it whatever happened to the nodes.

Each history is held against promises; what broke one is told under its name.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

LOST: Final = "nothing acknowledged is lost"
DOUBLED: Final = "nothing is doubled"
STRANGE: Final = "nothing is there that nobody sent"
ORDER: Final = "order holds within a key"
ONE_LEASE: Final = "a message is in one hand at a time"
AFTER_ACK: Final = "what was acknowledged is not handed out again"
EARLY: Final = "nothing comes early"
ABORTED: Final = "nothing aborted is seen"
WHOLE: Final = "a transaction is there whole or not at all"
ENDS: Final = "the end of a log never goes back"
SCHEMAS: Final = "a schema keeps its id and its version"
LEADERS: Final = "an epoch has one leader, and epochs never go back"
REPLICAS: Final = "replicas are equal to the byte"
PROGRESS: Final = "after the faults everybody makes progress"
CLIENTS: Final = "no client meets an answer that it cannot go on from"
Findings = dict[str, list[str]]  # by promise; none is a promise that was kept


def merged(*parts: Findings) -> Findings:
    together: Findings = {}
    for part in parts:
        for promise, wrong in part.items():
            together.setdefault(promise, []).extend(wrong)
    return together


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

    def given_back(self, owner: str, asked: float) -> None:
        """All that one has: who joins a group again gives back what it holds."""
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

    def check(self) -> Findings:
        return {ONE_LEASE: list(self._overlaps()), AFTER_ACK: list(self._after_acks())}

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

    def check(self, found: Sequence[str]) -> Findings:
        """`found` are all that are there, in order."""
        counts = Counter(found)
        return {
            LOST: [one for one in self.acked if one not in counts],
            DOUBLED: [f"{one}: {count} times" for one, count in counts.items() if count > 1],
            STRANGE: [one for one in counts if one not in self.acked and one not in self.unknown],
            ORDER: self._order({one: at for at, one in enumerate(found)}),
        }

    def _order(self, places: Mapping[str, int]) -> list[str]:
        last: dict[str, tuple[int, str]] = {}
        wrong: list[str] = []
        for message, key in self.acked.items():
            place = places.get(message, -1)
            if key in last and 0 <= place < last[key][0]:
                wrong.append(f"{message} stands before {last[key][1]} of the same key")
            last[key] = max(last.get(key, (-1, "")), (place, message))
        return wrong


class Delays:
    """When delayed messages may come at the earliest, and when they came."""

    def __init__(self) -> None:
        self.earliest_ms: dict[str, float] = {}
        self.seen_ms: dict[str, float] = {}

    def check(self, skew_ms: float = 0.0) -> Findings:
        """`skew_ms` is how far the clock of a node was ahead at most."""
        early = [
            f"early by {self.earliest_ms[one] - at:.0f} ms: {one}"
            for one, at in self.seen_ms.items()
            if at < self.earliest_ms.get(one, 0) - skew_ms
        ]
        return {EARLY: early}


class Transactions:
    """Each has several messages."""

    def __init__(self) -> None:
        self.committed: dict[str, list[str]] = {}
        self.aborted: dict[str, list[str]] = {}
        self.unknown: dict[str, list[str]] = {}

    def check(self, found: Sequence[str]) -> Findings:
        counts = Counter(found)
        return {
            DOUBLED: [f"{one}: {count} times" for one, count in counts.items() if count > 1],
            LOST: [f"{one} of {name}" for name, all_ in self.committed.items() for one in all_ if one not in counts],
            ABORTED: [f"{one} of {name}" for name, all_ in self.aborted.items() for one in all_ if one in counts],
            WHOLE: list(self._torn(counts)),
        }

    def _torn(self, counts: Mapping[str, int]) -> Iterable[str]:
        for name, messages in self.unknown.items():
            there = [one for one in messages if one in counts]
            if there and len(there) != len(messages):
                yield f"{name}: {there} of {messages}"


class Ends:
    """The end of each partition, as readers are told."""

    def __init__(self) -> None:
        self._highest: dict[int, int] = {}
        self.looks = 0
        self.wrong: list[str] = []

    def saw(self, partition: int, end: int) -> None:
        self.looks += 1
        if end < self._highest.get(partition, 0):
            self.wrong.append(f"partition {partition} ended at {self._highest[partition]}, and then at {end}")
        self._highest[partition] = max(end, self._highest.get(partition, 0))

    def check(self) -> Findings:
        return {ENDS: self.wrong}


class Groups:
    """Messages of a FIFO queue's groups, in the order in which consumers first saw them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[str, str] = {}
        self._last: dict[str, int] = {}
        self._wrong: Findings = {DOUBLED: [], ORDER: []}

    def saw(self, group: str, number: int, message_id: str) -> None:
        name = f"{group}/{number}"
        with self._lock:
            if name not in self._ids and number < self._last.get(group, -1):
                self._wrong[ORDER].append(f"{name} came after {self._last[group]}")
            if self._ids.setdefault(name, message_id) != message_id:
                self._wrong[DOUBLED].append(f"{name} is there as {self._ids[name]} and as {message_id}")
            self._last[group] = max(number, self._last.get(group, -1))

    def check(self) -> Findings:
        return self._wrong


class Registrations:
    """Schemas that a registry acknowledged, with the id and the version that it gave them."""

    def __init__(self) -> None:
        self.acked: dict[tuple[str, int], tuple[int, int]] = {}  # (subject, which schema) to (id, version)
        self._wrong: list[str] = []

    def registered(self, subject: str, schema: int, given: tuple[int, int]) -> None:
        before = self.acked.setdefault((subject, schema), given)
        if before != given:
            self._wrong.append(f"schema {schema} of {subject} was {before}, and then {given}")

    def check(self, found: Mapping[tuple[str, int], tuple[int, int]]) -> Findings:
        """`found` are those that are there."""
        changed = [
            f"schema {one[1]} of {one[0]} was given {given} and is {found[one]}"
            for one, given in self.acked.items()
            if one in found and found[one] != given
        ]
        lost = [f"schema {one[1]} of {one[0]}" for one in self.acked if one not in found]
        ids = Counter(number for number, _ in self.acked.values())
        twice = [f"id {number} was given {count} times" for number, count in ids.items() if count > 1]
        return {LOST: lost, SCHEMAS: [*self._wrong, *changed, *twice]}
