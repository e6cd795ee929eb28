"""What a node has: topics, partitions, offsets. Blocking, for any number of threads; waits for a node that is away."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

import msgspec

from goqueue.pipeline.link.addresses import addresses_of
from goqueue.pipeline.link.connection import BrokerConnection
from goqueue.pipeline.link.errors import BrokerRefused, PipelineError
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
    """One connection for each question under way; a few are kept for the next ones.

    A node that is away is waited for `patience_s`; until it has answered once, only `first_answer_s`.
    """

    def __init__(self, kafka: str, patience_s: float = PATIENCE_S, first_answer_s: float | None = None) -> None:
        self._kafka = kafka
        self._addresses = addresses_of(kafka)
        self._patience_s = patience_s
        self._first_answer_s = patience_s if first_answer_s is None else min(first_answer_s, patience_s)
        self._has_answered = False
        self._idle: list[BrokerConnection] = []
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
        return {one.name: TopicFacts(bytes(one.topic_id), len(one.partitions)) for one in answer.topics}

    def node(self) -> str:
        """The id of a node."""
        answer = self.ask(metadata.API, metadata.MetadataRequest([], allow_auto_topic_creation=False))
        return str(answer.brokers[0].node_id)

    def config(self, kind: int, name: str, keys: Sequence[str]) -> dict[str, str]:
        """Settings of a topic or of the node; those that it does not have are left out."""
        asked = describe_configs.DescribeConfigsResource(kind, name, keys)
        request = describe_configs.DescribeConfigsRequest([asked])
        (result,) = self.ask(describe_configs.API, request, _check_configs).results
        return {one.name: one.value for one in result.configs if one.value is not None}

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
        if not times:
            return {}
        topics = [
            list_offsets.ListOffsetsTopic(
                name, [list_offsets.ListOffsetsPartition(place.partition, timestamp=times[place]) for place in places]
            )
            for name, places in groupby(sorted(times), key=lambda place: place.topic)
        ]
        request = list_offsets.ListOffsetsRequest(-1, isolation_level(isolation), topics, int(self._patience_s * 1000))
        answer = self.ask(list_offsets.API, request, _check_offsets)
        return {place: one.offset for place, one in _offsets_of(answer)}

    # --- asking ----------------------------------------------------------------------------------------------

    def ask(self, api: ClientApi, request: Any, check: Check | None = None) -> Any:
        """The answer that `check` does not object to. What may be asked twice only: it is, after a break."""
        patience = self.patience()
        while True:
            try:
                answer = self._ask(api, request)
                if check is not None:
                    check(answer)
                return answer
            except OSError as error:
                self.close()
                patience.pause(error)
            except BrokerRefused as error:
                if error.code not in PASSING:
                    raise
                patience.pause(error)

    def _ask(self, api: ClientApi, request: Any) -> Any:
        connection = self.connect()
        try:
            answer = connection.ask(api, request)
        except BaseException:
            connection.close()
            raise
        self._has_answered = True
        self.give_back(connection)
        return answer

    def patience(self) -> Patience:
        """For a task that asks on connections of its own."""
        return Patience(self._kafka, self._patience_s if self._has_answered else self._first_answer_s)

    def connect(self) -> BrokerConnection:
        """A connection for the caller alone. `OSError` if no address answers."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        failures: list[OSError] = []
        for host, port in self._addresses:
            try:
                return BrokerConnection(host, port)
            except OSError as error:
                failures.append(error)
        raise failures[0]

    def give_back(self, connection: BrokerConnection) -> None:
        """Only one that is sound and owes no answer is kept."""
        with self._lock:
            if connection.is_quiet and len(self._idle) < _IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Idle connections go; it can still be used."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


# --- what answers say ----------------------------------------------------------------------------------------


def _check_topics(answer: metadata.MetadataResponse) -> None:
    for one in answer.topics:
        if one.error_code:
            raise refusal(one.error_code, one.name or "")


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
