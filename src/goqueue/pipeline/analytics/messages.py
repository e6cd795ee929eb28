"""The messages that a study looks at: from the lake's archive where it holds the topic, else from the node itself.

Both have the same offsets, so a study may read one pass here and the next there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from goqueue.pipeline.analytics.journal import OffsetBounds
from goqueue.pipeline.lake import choices
from goqueue.pipeline.lake.reading import Pruning, read_files
from goqueue.pipeline.lake.selection import in_ranges, range_pruning
from goqueue.pipeline.lake.tables import exists, open_table
from goqueue.pipeline.link.cluster import Cluster, cluster
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.pipeline.running import Run

SOURCES: Final = ("auto", "lake", "topics")
_ISOLATION: Final = "read_committed"
_FRAME_BYTES: Final = 5
_VALUE_BYTES_MAX: Final = 2**31 - 1


class Messages:
    """What one run can see of its topics; `topics` empty means all. `also` are more of them, as far as they are there.

    The address of a node is not needed for what the archive holds.
    """

    def __init__(self, spark: SparkSession, run: Run, topics: Sequence[str], also: Sequence[str] = ()) -> None:
        source = choices.one_of(run.options, "source", SOURCES)
        self._spark = spark
        self._run = run
        self._archive = run.place("messages")
        held = set() if source == "topics" else archived_topics(self._archive)
        if source == "lake" and not held.issuperset(topics):
            missing = min(set(topics) - held)
            raise TopicNotFound(
                missing, f"The archive has no topic {missing!r}; run the pipeline `archive` on it first."
            )
        self._in_lake = held.intersection((*topics, *also)) if topics else held
        self._in_node = set() if source == "lake" else self._elsewhere(set(topics), set(also), held)

    @property
    def topics(self) -> list[str]:
        return sorted(self._in_lake | self._in_node)

    def _elsewhere(self, topics: set[str], also: set[str], held: set[str]) -> set[str]:
        if not topics and held and not (self._run.kafka or self._run.url):
            return set()
        if topics and also <= held:
            return topics - held
        there = set(self._cluster().topics())
        return ((topics | also & there) if topics else there) - held

    def _cluster(self) -> Cluster:
        return cluster(self._kafka())

    def _kafka(self) -> str:
        return doors(self._run.kafka, self._run.url).kafka

    # --- how much there is -----------------------------------------------------------------------------------

    def bounds(self, known: Mapping[Place, int]) -> dict[Place, OffsetBounds]:
        """By partition, what can be read now. What is known to be studied is not looked through again."""
        return {**self._node_bounds(), **self._lake_bounds(known)}

    def _node_bounds(self) -> dict[Place, OffsetBounds]:
        if not self._in_node:
            return {}
        node = self._cluster()
        places = [Place(topic, number) for topic in sorted(self._in_node) for number in node.partitions(topic)]
        first, last = node.earliest(places), node.latest(places, _ISOLATION)
        return {place: OffsetBounds(first[place], last[place]) for place in places}

    def _lake_bounds(self, known: Mapping[Place, int]) -> dict[Place, OffsetBounds]:
        if not self._in_lake:
            return {}
        mine = {place: end for place, end in known.items() if place.topic in self._in_lake}
        unseen = [one for topic in sorted(self._in_lake) for one in beyond(topic, mine)]
        rows = read_files(self._spark, open_table(self._archive), unseen).where(f.col("topic").isin(*self._in_lake))
        edges = (f.min("offset").alias("first"), (f.max("offset") + 1).alias("end"))
        found = {place: OffsetBounds(end, end) for place, end in mine.items()}
        for row in rows.groupBy("topic", "partition").agg(*edges).collect():
            place = Place(row["topic"], row["partition"])
            start = mine.get(place, row["first"])
            found[place] = OffsetBounds(start, max(start, row["end"]))
        return found

    # --- the rows --------------------------------------------------------------------------------------------

    def frame(self, ranges: Sequence[OffsetRange], columns: Sequence[str]) -> DataFrame:
        """The messages of these ranges, each once; columns as the connector names them, and `text`."""
        parts = [
            part([one for one in ranges if one.topic in held], columns)
            for part, held in ((self._read_lake, self._in_lake), (self._read_node, self._in_node))
            if any(one.topic in held for one in ranges)
        ]
        return reduce(DataFrame.unionByName, parts)

    def _read_lake(self, ranges: Sequence[OffsetRange], columns: Sequence[str]) -> DataFrame:
        rows = read_files(self._spark, open_table(self._archive), range_pruning(ranges))
        return rows.where(in_ranges(ranges)).select(*columns)

    def _read_node(self, ranges: Sequence[OffsetRange], columns: Sequence[str]) -> DataFrame:
        options = {
            "kafka.bootstrap.servers": self._kafka(),
            "assign": _by_topic((one.topic, one.partition) for one in ranges),
            "startingOffsets": _offsets((one.topic, one.partition, one.start) for one in ranges),
            "endingOffsets": _offsets((one.topic, one.partition, one.end) for one in ranges),
            "columns": ",".join(name for name in columns if name != "text"),
        }
        rows = self._spark.read.format("goqueue").options(**options).load()
        return (with_text(rows) if "text" in columns else rows).select(*columns)


def beyond(topic: str, known: Mapping[Place, int]) -> Pruning:
    """The files that may hold offsets of a topic that are not known, or partitions that nobody saw yet."""
    ends = {place.partition: end for place, end in known.items() if place.topic == topic}
    if not ends:
        return [[("topic", "=", topic)]]
    gaps = [number for number in range(max(ends)) if number not in ends]
    return [
        [("topic", "=", topic), ("offset", ">=", min(ends.values()))],
        [("topic", "=", topic), ("partition", ">", max(ends))],
        *([("topic", "=", topic), ("partition", "=", number)] for number in gaps),
    ]


def archived_topics(archive: str) -> set[str]:
    """The topics that the archive holds something of; none where there is no archive."""
    return {str(one["topic"]) for one in open_table(archive).partitions()} if exists(archive) else set()


def with_text(frame: DataFrame) -> DataFrame:
    """With the column `text`, as the archive has it: values that are UTF-8, and JSON behind a schema's id."""
    value = f.col("value")
    framed = f.substring(value, 1, 1) == f.lit(b"\0")
    inside = f.substring(value, _FRAME_BYTES + 1, _VALUE_BYTES_MAX)
    ends = f.concat(f.substring(inside, 1, 1), f.substring(inside, -1, 1))
    is_json = ends.isin(bytearray(b"{}"), bytearray(b"[]"))
    data = f.when(~framed, value).when(is_json, inside).cast("string")
    return frame.withColumn("text", f.when(f.is_valid_utf8(data), data))


def _by_topic(places: Iterable[tuple[str, int]]) -> str:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return json.dumps(found)


def _offsets(places: Iterable[tuple[str, int, int]]) -> str:
    found: dict[str, dict[str, int]] = {}
    for topic, partition, offset in places:
        found.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(found)
