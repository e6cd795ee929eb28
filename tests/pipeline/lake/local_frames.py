"""A stand-in for a batch of a streaming query: its tasks run right here, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from goqueue.pipeline.link.cluster import TopicFacts

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class LocalFrame:
    """As much of a frame as a sink needs. Each list of batches is the work of one task."""

    def __init__(self, tasks: Sequence[Sequence[pa.RecordBatch]], query: str = "q") -> None:
        self._tasks = tasks
        self._query = query
        self.runs = 0

    @property
    def sparkSession(self) -> LocalFrame:  # noqa: N802
        return self

    @property
    def sparkContext(self) -> LocalFrame:  # noqa: N802
        return self

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        assert name == "sql.streaming.queryId"
        return self._query

    def mapInArrow(self, task: Task, schema: str) -> _Mapped:  # noqa: N802
        assert schema == "part binary"
        self.runs += 1
        return _Mapped([batch for work in self._tasks for batch in task(iter(work))])


class _Mapped:
    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches

    def collect(self) -> list[tuple[Any]]:
        return [(value,) for batch in self._batches for value in batch.column(0).to_pylist()]


class LocalCluster:
    """Topics that are only told of: name to partitions, and an id for each life of a topic."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._topics = dict(topics)
        self._lives = dict.fromkeys(topics, 0)

    def topics(self) -> dict[str, int]:
        return self._topics

    def describe(self, topics: Sequence[str]) -> dict[str, TopicFacts]:
        return {one: TopicFacts(bytes([self._lives[one]]) * 16, self._topics[one]) for one in topics}

    def make_again(self, topic: str) -> None:
        self._lives[topic] += 1
