"""What nodes have: topics, partitions, offsets. Blocking, for any number of threads; waits for a node that is away."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import msgspec

from goqueue.pipeline.link.addresses import Address, addresses_of
from goqueue.pipeline.link.connection import BrokerConnection
from goqueue.pipeline.link.errors import BrokerRefused, PipelineError
from goqueue.pipeline.link.identity import split_identity
from goqueue.pipeline.link.leaders import Leaders
from goqueue.pipeline.link.nearest import NearestReplicas
from goqueue.pipeline.link.patience import Patience
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.link.refusals import PASSING, refusal
from goqueue.wire.messages import describe_configs, list_offsets, metadata
from goqueue.wire.shape import ClientApi

__all__ = ["Cluster", "Place", "TopicFacts", "cluster"]

PATIENCE_S: Final = 120.0  # for a node that has answered before: it is back from a restart by then
FIRST_ANSWER_S: Final = 5.0  # for one that never has: more likely the address is wrong, or nothing runs there
ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}
BROKER: Final = 4  # kinds of things that have settings
TOPIC: Final = 2
_LATEST: Final = -1
_EARLIEST: Final = -2
_IDLE_MAX: Final = 4  # connections kept for the next one who asks

Check = Callable[[Any], None]
Find = Callable[[], Address | None]  # whom to ask, as far as that is known now; None is any node


def anywhere() -> None:
    """Any node can answer."""


class TopicFacts(msgspec.Struct, frozen=True):
    """The id changes if a topic is deleted and made again."""

    id: bytes
    partitions: int


def cluster(kafka: str, patience_s: float = PATIENCE_S, first_answer_s: float = FIRST_ANSWER_S) -> Cluster:
    """The process's one client of these addresses; opens nothing until it is used."""
    return _cached(os.getpid(), kafka, patience_s, first_answer_s)


@lru_cache(maxsize=64)
def _cached(process: int, kafka: str, patience_s: float, first_answer_s: float) -> Cluster:
    """By process, since a forked one must not share its parent's connections."""
    return Cluster(kafka, patience_s, first_answer_s)


def isolation_level(isolation: str) -> int:
    if isolation not in ISOLATION:
        raise PipelineError(f"{isolation!r} is no isolation; use read_committed or read_uncommitted.")
    return ISOLATION[isolation]


class Cluster:
    """One connection for each question under way; a few are kept for the next ones. Leaders are found and followed.

    A node that is away is waited for `patience_s`; until it has answered once, only `first_answer_s`.
    """

    def __init__(self, kafka: str, patience_s: float = PATIENCE_S, first_answer_s: float | None = None) -> None:
        self._kafka, self._identity = split_identity(kafka)
        self._addresses = addresses_of(self._kafka)
        self._patience_s = patience_s
        self._first_answer_s = patience_s if first_answer_s is None else min(first_answer_s, patience_s)
        self._has_answered = False
        self.leaders = Leaders(self._ask)
        self.nearest = NearestReplicas(self._identity.client_rack())
        self._idle: dict[Address | None, list[BrokerConnection]] = {}
        self._lock = threading.Lock()

    # --- topics ----------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has; without the broker's own."""
        answer = self.ask(metadata.API, metadata.MetadataRequest(None, allow_auto_topic_creation=False))
        return {one.name: len(one.partitions) for one in answer.topics if not one.is_internal}

    def partitions(self, topic: str) -> list[int]:
        """`UnknownTopic` if there is none."""
        return list(range(self.describe([topic])[topic].partitions))

    def describe(self, topics: Sequence[str], may_create: bool = False) -> dict[str, TopicFacts]:
        """`UnknownTopic` if one is not there; with `may_create` the node makes it if its settings allow that."""
        asked = [metadata.MetadataRequestTopic(name=name) for name in dict.fromkeys(topics)]
        request = metadata.MetadataRequest(asked, allow_auto_topic_creation=may_create)
        answer = self.ask(metadata.API, request, _check_topics)
        self.leaders.learn(answer)
        return {one.name: TopicFacts(bytes(one.topic_id), len(one.partitions)) for one in answer.topics}

    def node_config(self, keys: Sequence[str]) -> dict[str, str]:
        """Settings of a node; each tells only its own."""
        patience = self.patience()
        while True:
            try:
                answer = self._ask(metadata.API, metadata.MetadataRequest([], allow_auto_topic_creation=False))
                one = answer.brokers[0]
                at = None if len(answer.brokers) == 1 else (one.host, one.port)
                return _settings(self._ask(describe_configs.API, _asked(BROKER, str(one.node_id), keys), at))
            except (OSError, BrokerRefused) as error:
                self.pause(error, patience)

    def topic_config(self, name: str, keys: Sequence[str]) -> dict[str, str]:
        """Those that it does not have are left out."""
        return _settings(self.ask(describe_configs.API, _asked(TOPIC, name, keys), _check_configs))

    # --- offsets ---------------------------------------------------------------------------------------------

    def earliest(self, places: Sequence[Place]) -> dict[Place, int]:
        """Where the logs begin."""
        return self._offsets(dict.fromkeys(places, _EARLIEST), "read_uncommitted")

    def latest(self, places: Sequence[Place], isolation: str) -> dict[Place, int]:
        """Where the logs end; for `read_committed` the first offset that an open transaction holds back."""
        return self._offsets(dict.fromkeys(places, _LATEST), isolation)

    def at_time(self, places: Sequence[Place], times: Mapping[Place, int]) -> dict[Place, int | None]:
        """The first message at or after a time in milliseconds; None if all are older."""
        found = self._offsets({place: max(0, times[place]) for place in places}, "read_uncommitted")
        return {place: None if offset < 0 else offset for place, offset in found.items()}

    def _offsets(self, times: Mapping[Place, int], isolation: str) -> dict[Place, int]:
        level, found = isolation_level(isolation), dict[Place, int]()
        patience = self.patience()
        while left := [place for place in times if place not in found]:
            try:
                for leader, places in self.leaders.split(left).items():
                    request = self._offsets_request({place: times[place] for place in places}, level)
                    answer = self._ask(list_offsets.API, request, leader)
                    _check_offsets(answer)
                    found |= {place: one.offset for place, one in _offsets_of(answer)}
            except (OSError, BrokerRefused) as error:
                self.pause(error, patience)
        return found

    def _offsets_request(self, times: Mapping[Place, int], level: int) -> list_offsets.ListOffsetsRequest:
        topics = [
            list_offsets.ListOffsetsTopic(
                name, [list_offsets.ListOffsetsPartition(place.partition, timestamp=times[place]) for place in places]
            )
            for name, places in groupby(sorted(times), key=lambda place: place.topic)
        ]
        return list_offsets.ListOffsetsRequest(-1, level, topics, int(self._patience_s * 1000))

    # --- asking ----------------------------------------------------------------------------------------------

    def ask(self, api: ClientApi, request: Any, check: Check | None = None, at: Find = anywhere) -> Any:
        """The answer that `check` does not object to. What may be asked twice only: it is, after a break."""
        patience = self.patience()
        while True:
            try:
                answer = self._ask(api, request, at())
                if check is not None:
                    check(answer)
                return answer
            except (OSError, BrokerRefused) as error:
                self.pause(error, patience)

    def pause(self, why: OSError | BrokerRefused, patience: Patience) -> None:
        """Before the next attempt, which asks anew who leads. Raises what does not pass by itself."""
        if isinstance(why, BrokerRefused) and why.code not in PASSING:
            raise why
        if isinstance(why, OSError):
            self.close()
        self.leaders.forget()
        patience.pause(why)

    def _ask(self, api: ClientApi, request: Any, at: Address | None = None) -> Any:
        connection = self.connect(at)
        try:
            answer = connection.ask(api, request)
        except BaseException:
            connection.close()
            raise
        self._has_answered = True
        self.give_back(connection, at)
        return answer

    def patience(self, seconds_max: float = math.inf) -> Patience:
        """For a task that asks on connections of its own."""
        seconds = self._patience_s if self._has_answered else self._first_answer_s
        return Patience(self._kafka, min(seconds, seconds_max))

    def connect(self, at: Address | None = None) -> BrokerConnection:
        """A connection for the caller alone, to one node or to any. `OSError` if no address answers."""
        with self._lock:
            if idle := self._idle.get(at):
                return idle.pop()
        failures: list[OSError] = []
        for host, port in [*self._addresses, *self.leaders.nodes] if at is None else [at]:
            try:
                return BrokerConnection(host, port, self._identity)
            except OSError as error:
                failures.append(error)
        raise failures[0]

    def give_back(self, connection: BrokerConnection, at: Address | None = None) -> None:
        """Only one that is sound and owes no answer is kept."""
        with self._lock:
            idle = self._idle.setdefault(at, [])
            if connection.is_quiet and len(idle) < _IDLE_MAX:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Idle connections go; it can still be used."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connection in (one for some in idle.values() for one in some):
            connection.close()


# --- what answers say ----------------------------------------------------------------------------------------


def _check_topics(answer: metadata.MetadataResponse) -> None:
    for one in answer.topics:
        if one.error_code:
            raise refusal(one.error_code, one.name or "")


def _asked(kind: int, name: str, keys: Sequence[str]) -> describe_configs.DescribeConfigsRequest:
    return describe_configs.DescribeConfigsRequest([describe_configs.DescribeConfigsResource(kind, name, keys)])


def _settings(answer: describe_configs.DescribeConfigsResponse) -> dict[str, str]:
    _check_configs(answer)
    (result,) = answer.results
    return {one.name: one.value for one in result.configs if one.value is not None}


def _check_configs(answer: describe_configs.DescribeConfigsResponse) -> None:
    for one in answer.results:
        if one.error_code:
            raise refusal(one.error_code, one.resource_name or "node", one.error_message)


def _check_offsets(answer: list_offsets.ListOffsetsResponse) -> None:
    for place, one in _offsets_of(answer):
        if one.error_code:
            raise refusal(one.error_code, place)


def _offsets_of(
    answer: list_offsets.ListOffsetsResponse,
) -> Iterator[tuple[Place, list_offsets.ListOffsetsPartitionResponse]]:
    for topic in answer.topics:
        for one in topic.partitions:
            yield Place(topic.name, one.partition_index), one
