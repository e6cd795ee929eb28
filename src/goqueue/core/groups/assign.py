"""Who reads which partition. Pure functions of subscriptions, what members have now, and the topics' partition counts.

`range` deals each topic out in blocks, `roundrobin` deals all partitions out in turn, `sticky` (Kafka's server-side
`uniform`) balances within one and moves as little as it can. Topics that do not exist have no partitions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Final, TypeAlias

import msgspec

from goqueue.core.groups.parts import Parts, make


class Subscriber(msgspec.Struct, frozen=True):
    """A member as assignors see it."""

    topics: frozenset[str]
    owned: Parts = {}


Subscribers: TypeAlias = Mapping[str, Subscriber]
Assignor: TypeAlias = Callable[[Subscribers, Mapping[str, int]], dict[str, Parts]]
_Load: TypeAlias = dict[str, dict[str, set[int]]]


def assign_range(members: Subscribers, topics: Mapping[str, int]) -> dict[str, Parts]:
    """Each topic in blocks, to its subscribers in the order of their ids; the first ones get one more."""
    dealt: _Load = {member: {} for member in members}
    for topic, readers in _readers(members, topics).items():
        each, more = divmod(topics[topic], len(readers))
        start = 0
        for index, member in enumerate(readers):
            end = start + each + (index < more)
            dealt[member][topic] = set(range(start, end))
            start = end
    return _finished(dealt)


def assign_roundrobin(members: Subscribers, topics: Mapping[str, int]) -> dict[str, Parts]:
    """All partitions of all topics, one by one, to the next member that reads the topic."""
    dealt: _Load = {member: {} for member in members}
    turn = cycle(sorted(members))
    for topic in _readers(members, topics):
        for number in range(topics[topic]):
            member = next(name for name in turn if topic in members[name].topics)
            dealt[member].setdefault(topic, set()).add(number)
    return _finished(dealt)


def assign_sticky(members: Subscribers, topics: Mapping[str, int]) -> dict[str, Parts]:
    """Balanced within one, and everybody keeps what balance lets it keep."""
    if not members:
        return {}
    kept, free = _kept(members, topics)
    if len({member.topics for member in members.values()}) == 1:
        _trim(kept, free, sum(topics.get(topic, 0) for topic in next(iter(members.values())).topics))
        _fill(kept, free)
    else:
        readers = _readers(members, topics)
        _spread(kept, free, readers)
        _level(kept, readers)
    return _finished(kept)


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "range": assign_range,
    "roundrobin": assign_roundrobin,
    "sticky": assign_sticky,
    "uniform": assign_sticky,
}
DEFAULT_ASSIGNOR: Final = "uniform"


def _readers(members: Subscribers, topics: Mapping[str, int]) -> dict[str, list[str]]:
    """Existing topics in order, each with its subscribers in order."""
    readers: dict[str, list[str]] = {}
    for name in sorted(members):
        for topic in members[name].topics:
            if topics.get(topic, 0):
                readers.setdefault(topic, []).append(name)
    return {topic: readers[topic] for topic in sorted(readers)}


def _finished(dealt: _Load) -> dict[str, Parts]:
    return {member: make(parts.items()) for member, parts in dealt.items()}


def _kept(members: Subscribers, topics: Mapping[str, int]) -> tuple[_Load, list[tuple[str, int]]]:
    """What members own and may keep, and what is nobody's. A partition claimed twice stays with the first."""
    free = {topic: set(range(topics[topic])) for topic in _readers(members, topics)}
    kept: _Load = {}
    for name in sorted(members):
        kept[name] = {}
        for topic, numbers in members[name].owned.items():
            if topic in free and topic in members[name].topics:
                kept[name][topic] = free[topic].intersection(numbers)
                free[topic] -= kept[name][topic]
    return kept, [(topic, number) for topic in free for number in sorted(free[topic])]


def _size(parts: Mapping[str, set[int]]) -> int:
    return sum(len(numbers) for numbers in parts.values())


def _trim(kept: _Load, free: list[tuple[str, int]], total: int) -> None:
    """Takes what is over a member's share. The larger shares go to those that have most, so that least moves."""
    each, more = divmod(total, len(kept))
    order = sorted(kept, key=lambda name: (-_size(kept[name]), name))
    for index, name in enumerate(order):
        over = _size(kept[name]) - each - (index < more)
        while over > 0:
            topic = max(kept[name], key=lambda topic: (len(kept[name][topic]), topic))
            number = max(kept[name][topic])
            kept[name][topic].discard(number)
            free.append((topic, number))
            over -= 1
    free.sort()


def _fill(kept: _Load, free: list[tuple[str, int]]) -> None:
    """Gives each free partition to the member that has least."""
    heap = [(_size(parts), name) for name, parts in kept.items()]
    heapq.heapify(heap)
    for topic, number in free:
        size, name = heap[0]
        kept[name].setdefault(topic, set()).add(number)
        heapq.heapreplace(heap, (size + 1, name))


def _spread(kept: _Load, free: list[tuple[str, int]], readers: Mapping[str, list[str]]) -> None:
    """Gives free partitions to the reader that has least; topics with few readers go first, as they have no choice."""
    size = {name: _size(parts) for name, parts in kept.items()}
    for topic, number in sorted(free, key=lambda part: (len(readers[part[0]]), part)):
        name = min(readers[topic], key=lambda name: (size[name], name))
        kept[name].setdefault(topic, set()).add(number)
        size[name] += 1


def _level(kept: _Load, readers: Mapping[str, list[str]]) -> None:
    """Moves partitions from fuller to emptier readers while one move helps; each evens out, so it ends."""
    size = {name: _size(parts) for name, parts in kept.items()}
    moved = True
    while moved:
        moved = False
        for giver in sorted(kept, key=lambda name: (-size[name], name)):
            for topic in sorted(kept[giver]):
                while kept[giver][topic]:
                    taker = min(readers[topic], key=lambda name: (size[name], name))
                    if size[giver] - size[taker] < 2:
                        break
                    number = max(kept[giver][topic])
                    kept[giver][topic].discard(number)
                    kept[taker].setdefault(topic, set()).add(number)
                    size[giver] -= 1
                    size[taker] += 1
                    moved = True
