"""Which topics and partitions a query reads: by name, by pattern, or one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.errors import BadOption
from goqueue.pipeline.source.offsets import parse_places

if TYPE_CHECKING:
    from goqueue.pipeline.link.cluster import Cluster, TopicFacts

WAYS: Final = ("subscribe", "subscribePattern", "assign")


class FoundTopics(msgspec.Struct, frozen=True):
    """What is there of a subscription, with the ids of its topics, and what was asked for by name and is not there."""

    places: tuple[Place, ...]
    ids: dict[str, str]
    missing: tuple[str, ...] = ()


class SourceSubscription(msgspec.Struct, frozen=True):
    """Exactly one of the three."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[Place, ...] = ()

    def find(self, cluster: Cluster) -> FoundTopics:
        """What is there now; topics that match the pattern and partitions that are added show up here."""
        if self.pattern is not None:
            return _whole(_matching(self.pattern, cluster.topics()), cluster)
        if self.assigned:
            return _assigned(self.assigned, cluster)
        return _whole(self.topics, cluster)


def parse_subscription(given: Mapping[str, str]) -> SourceSubscription:
    """`BadOption` unless exactly one of the three ways is used, and used well."""
    used = [way for way in WAYS if way in given]
    if len(used) != 1:
        what = f"{' and '.join(used)} are given together" if used else "none is given"
        raise BadOption(f"Say what to read with exactly one of {', '.join(WAYS)}; {what}.")
    way, text = used[0], given[used[0]].strip()
    if way == "subscribe":
        return SourceSubscription(topics=_topics(text))
    if way == "subscribePattern":
        return SourceSubscription(pattern=_pattern(text))
    return SourceSubscription(assigned=_places(text))


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise BadOption("subscribe names no topic; write it like 'orders' or 'orders,payments'.")
    return topics


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise BadOption(f"subscribePattern is a regular expression; {text!r} is not ({error}).") from None
    if not text:
        raise BadOption("subscribePattern is empty; write it like 'shop\\..*'. It has to match a topic's whole name.")
    return text


def _places(text: str) -> tuple[Place, ...]:
    places = parse_places(text, "assign")
    if not places:
        raise BadOption('assign names no partition; write it like {"orders": [0, 1]}.')
    return places


def _matching(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
    wanted = re.compile(pattern)
    return tuple(name for name in sorted(topics) if wanted.fullmatch(name))


def _whole(topics: Sequence[str], cluster: Cluster) -> FoundTopics:
    facts = _facts(topics, cluster)
    places = tuple(Place(topic, part) for topic, one in facts.items() for part in range(one.partitions))
    return FoundTopics(places, _ids(facts), tuple(topic for topic in topics if topic not in facts))


def _assigned(assigned: Sequence[Place], cluster: Cluster) -> FoundTopics:
    facts = _facts(sorted({place.topic for place in assigned}), cluster)
    there = [place.topic in facts and place.partition < facts[place.topic].partitions for place in assigned]
    missing = tuple(str(place) for place, is_there in zip(assigned, there, strict=True) if not is_there)
    return FoundTopics(tuple(compress(assigned, there)), _ids(facts), missing)


def _facts(topics: Sequence[str], cluster: Cluster) -> dict[str, TopicFacts]:
    """Of those that are there. All are asked for at once, and one by one only if one is not there."""
    try:
        return cluster.describe(topics) if topics else {}
    except TopicNotFound:
        if len(topics) == 1:
            return {}
    return {name: one for topic in topics for name, one in _facts([topic], cluster).items()}


def _ids(facts: Mapping[str, TopicFacts]) -> dict[str, str]:
    return {topic: one.id.hex() for topic, one in facts.items()}
