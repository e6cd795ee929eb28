"""A node's topics without a node: what is there is what the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goqueue.pipeline.link.cluster import TopicFacts
from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import Place


class FakeLeaders:
    """One node keeps everything."""

    def keeper(self, kind: int, key: str) -> None:
        return None


class FakeCluster:
    """Each partition has a first and a next offset; the message at offset n has the timestamp 1000 * n."""

    def __init__(self, **topics: Sequence[tuple[int, int]]) -> None:
        self.logs: dict[Place, tuple[int, int]] = {}
        self.ids: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.leaders = FakeLeaders()
        self.committed: list[Any] = []
        for topic, partitions in topics.items():
            self.make(topic, partitions)

    def make(self, topic: str, partitions: Sequence[tuple[int, int]]) -> None:
        self.ids[topic] = bytes([len(self.asked) % 256, len(self.ids) + 1]) * 8
        for number, ends in enumerate(partitions):
            self.logs[Place(topic, number)] = ends

    def delete(self, topic: str) -> None:
        del self.ids[topic]
        self.logs = {place: ends for place, ends in self.logs.items() if place.topic != topic}

    def grow(self, topic: str, partition: int, by: int) -> None:
        first, end = self.logs[Place(topic, partition)]
        self.logs[Place(topic, partition)] = first, end + by

    def retain_from(self, topic: str, partition: int, first: int) -> None:
        self.logs[Place(topic, partition)] = first, self.logs[Place(topic, partition)][1]

    # --- as a cluster ------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, int]:
        self.asked.append("topics")
        return {topic: sum(place.topic == topic for place in self.logs) for topic in self.ids}

    def describe(self, topics: Sequence[str]) -> dict[str, TopicFacts]:
        self.asked.append("describe")
        for topic in topics:
            if topic not in self.ids:
                raise TopicNotFound(topic)
        return {topic: TopicFacts(self.ids[topic], sum(p.topic == topic for p in self.logs)) for topic in topics}

    def earliest(self, places: Sequence[Place]) -> dict[Place, int]:
        self.asked.append("earliest")
        return {place: self._log(place)[0] for place in places}

    def latest(self, places: Sequence[Place], isolation: str) -> dict[Place, int]:
        self.asked.append("latest")
        return {place: self._log(place)[1] for place in places}

    def at_time(self, places: Sequence[Place], times: Mapping[Place, int]) -> dict[Place, int | None]:
        self.asked.append("at_time")
        return {place: self._at(place, times[place]) for place in places}

    def ask(self, api: Any, request: Any, check: Any = None, at: Any = None) -> Any:
        self.asked.append(api.name)
        self.committed.append(request)

    def _log(self, place: Place) -> tuple[int, int]:
        if place not in self.logs:
            raise TopicNotFound(place.topic)
        return self.logs[place]

    def _at(self, place: Place, ms: int) -> int | None:
        first, end = self._log(place)
        offset = max(first, -(-ms // 1000))
        return offset if offset < end else None


class Clock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now
