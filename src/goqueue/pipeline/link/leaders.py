"""Who is asked about what in a cluster: the leader of a partition, the keeper of a group or of a transaction.

Of a node alone nothing is learned: it is asked at the address that the user gave, whatever it calls itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from goqueue.pipeline.link.addresses import Address
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.link.refusals import refusal
from goqueue.wire.codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION
from goqueue.wire.messages import find_coordinator, metadata
from goqueue.wire.shape import ClientApi

Ask: TypeAlias = Callable[[ClientApi, Any], Any]
GROUP: Final = 0  # kinds of what is kept somewhere
TRANSACTION: Final = 1


class _Known(msgspec.Struct):
    """What answers said since it was last forgotten."""

    is_alone: bool
    leaders: dict[Place, Address] = {}
    waiting: set[Place] = set()  # those that nobody leads


class Leaders:
    """As the last answers said; `forget` after anything that went wrong, and it is asked anew."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._known: _Known | None = None
        self._keepers: dict[tuple[int, str], Address] = {}
        self._nodes: dict[int, Address] = {}  # of a cluster, even when the one that told it is gone

    @property
    def nodes(self) -> list[Address]:
        return list(self._nodes.values())

    def node(self, number: int) -> Address | None:
        return self._nodes.get(number)

    def forget(self) -> None:
        self._known = None
        self._keepers = {}

    def learn(self, answer: metadata.MetadataResponse) -> _Known:
        """From any answer of a node about topics."""
        nodes = {one.node_id: (one.host, one.port) for one in answer.brokers}
        if len(nodes) <= 1:
            self._known = known = _Known(True)
            return known
        self._nodes = nodes
        known = self._known if self._known is not None and not self._known.is_alone else _Known(False)
        for place, leader in _leaders_of(answer):
            if leader in nodes:
                known.leaders[place] = nodes[leader]
            else:
                known.waiting.add(place)
        self._known = known
        return known

    def split(self, places: Iterable[Place]) -> dict[Address | None, list[Place]]:
        """By who leads them; None is whoever answers. `BrokerRefused` while nobody leads one."""
        wanted = list(places)
        known = self._meet(wanted)
        if known.is_alone:
            return {None: wanted}
        found: dict[Address | None, list[Place]] = {}
        for place in wanted:
            if place not in known.leaders:
                raise refusal(LEADER_NOT_AVAILABLE if place in known.waiting else UNKNOWN_TOPIC_OR_PARTITION, place)
            found.setdefault(known.leaders[place], []).append(place)
        return found

    def of(self, place: Place) -> Address | None:
        (found,) = self.split([place])
        return found

    def keeper(self, kind: int, key: str) -> Address | None:
        """Of a group or a transaction."""
        if self._meet([]).is_alone:
            return None
        if (found := self._keepers.get((kind, key))) is None:
            request = find_coordinator.FindCoordinatorRequest(key, kind, [key])
            (told,) = self._ask(find_coordinator.API, request).coordinators
            if told.error_code:
                raise refusal(told.error_code, key)
            self._keepers[kind, key] = found = (told.host, told.port)
        return found

    def _meet(self, places: list[Place]) -> _Known:
        known = self._known
        topics = {place.topic for place in places if known is None or place not in known.leaders}
        if known is not None and (known.is_alone or not topics):
            return known
        asked = [metadata.MetadataRequestTopic(name=name) for name in sorted(topics)]
        return self.learn(self._ask(metadata.API, metadata.MetadataRequest(asked, allow_auto_topic_creation=False)))


def _leaders_of(answer: metadata.MetadataResponse) -> Iterator[tuple[Place, int]]:
    for topic in answer.topics:
        for one in topic.partitions:
            yield Place(topic.name or "", one.partition_index), one.leader_id
