"""Everything of one key removed, for privacy requests: rows of the lake's tables, and messages as far as a log can.

First it is found and told, then it is done. Neither Spark nor a running pipeline is needed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import compress
from operator import or_
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.pipeline.lake.either import FoundTable
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.tending import tables_in
from goqueue.pipeline.link.cluster import Cluster, cluster
from goqueue.pipeline.link.doors import NodeAddresses
from goqueue.pipeline.link.identity import node_client
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.pipeline.link.reading import read_arrow

_KEYS: Final = ("key", "_key")  # of the archive and of typed tables; of pipelines' own tables
# Which message a row comes from. In tables of pipelines the plain names may be columns of the users.
_ORIGINS: Final = (("_topic", "_partition", "_offset"), ("topic", "partition", "offset"))
Row = tuple[str, int, int]  # a topic, a partition, an offset
_SETTINGS: Final = ("cleanup.policy", "retention.ms")
_OFFSETS_MAX: Final = 1_000_000


class KeyFound(msgspec.Struct, frozen=True):
    """What there is of the key in one place. `plan` says what is done about it, and what cannot be."""

    place: str
    kind: str
    found: int
    plan: str


class KeyRemoved(msgspec.Struct, frozen=True):
    """What was done in one place; `files` are those removed for ever."""

    place: str
    kind: str
    removed: int
    files: int
    note: str


class Forgetting:
    """One key in some topics and in all tables of a lake. `columns` are columns of tables that hold keys, too."""

    def __init__(
        self, key: str, node: NodeAddresses | None, topics: Sequence[str], lake: str | None, columns: Sequence[str]
    ) -> None:
        self._key, self._node, self._topics, self._lake, self._columns = key, node, tuple(topics), lake, tuple(columns)
        self._offsets: dict[Place, list[int]] = {}
        self._compacted: dict[str, list[int]] = {}
        self._conditions: dict[str, list[str]] = {}
        self._known: dict[str, None] = {}  # the names of all columns

    def look(self) -> list[KeyFound]:
        """Reads the topics and the key columns of all tables; changes nothing."""
        found = [self._in_topic(topic) for topic in self._topics]
        names = [] if self._lake is None else tables_in(self._lake)
        # The archive knows where messages were that a log no longer has; what has only places comes after it.
        ordered = sorted(names, key=lambda name: (name != "messages", name))
        found += [self._in_table(name) for name in ordered]
        self._check_columns()
        return found

    def _check_columns(self) -> None:
        """A slip of the pen would leave rows that were to be forgotten."""
        missing = [name for name in self._columns if name not in self._known]
        if missing and self._lake is not None:
            near = get_close_matches(missing[0], self._known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise LakeError(f"No table in {self._lake} has a column {missing[0]!r}{hint}")

    def carry_out(self) -> list[KeyRemoved]:
        """What `look` found."""
        done = [self._tombstones(topic, partitions) for topic, partitions in self._compacted.items()]
        return done + [self._delete(name, conditions) for name, conditions in self._conditions.items()]

    # --- topics ---------------------------------------------------------------------------------------------------

    def _in_topic(self, topic: str) -> KeyFound:
        assert self._node is not None
        node = cluster(self._node.kafka)
        newest_ms = 0
        places: dict[Place, list[int]] = {}
        for rows in read_arrow(
            self._node.kafka, _all_of(node, topic), ("key", "partition", "offset", "timestamp"), fail_on_loss=False
        ):
            own = rows.filter(pc.equal(rows["key"], pa.scalar(self._key.encode(), rows["key"].type)))
            for partition, offset, at in zip(
                *(own[name].to_pylist() for name in ("partition", "offset", "timestamp")), strict=True
            ):
                places.setdefault(Place(topic, partition), []).append(offset)
                newest_ms = max(newest_ms, round(at.timestamp() * 1000)) if at is not None else newest_ms
        self._note(places)
        count = sum(map(len, places.values()))
        settings = node.topic_config(topic, _SETTINGS)
        if "compact" not in settings.get("cleanup.policy", ""):
            return KeyFound(topic, "topic", count, _stay_until(count, newest_ms, settings))
        if count:
            self._compacted[topic] = sorted(place.partition for place in places)
        return KeyFound(topic, "topic", count, "a tombstone; compaction removes what is before it" if count else "-")

    def _note(self, places: Mapping[Place, list[int]]) -> None:
        for place, offsets in places.items():
            self._offsets.setdefault(place, []).extend(offsets)
        if sum(map(len, self._offsets.values())) > _OFFSETS_MAX:
            raise LakeError(f"There are more than {_OFFSETS_MAX:,} messages of {self._key!r}; name fewer topics.")

    def _tombstones(self, topic: str, partitions: Sequence[int]) -> KeyRemoved:
        assert self._node is not None
        with node_client(self._node.url) as client:
            for partition in partitions:
                client.publish(topic, None, key=self._key, partition=partition)
        return KeyRemoved(topic, "topic", 0, 0, f"{len(partitions)} tombstones sent; compaction does the rest")

    # --- tables ---------------------------------------------------------------------------------------------------

    def _in_table(self, name: str) -> KeyFound:
        table = FoundTable(f"{self._lake}/{name}")
        kinds = {field.name: field.type for field in table.columns()}
        self._known |= dict.fromkeys(kinds)
        matches = [
            (column, *literal)
            for column, kind in kinds.items()
            if self._is_key(column) and (literal := _literal(self._key, kind))
        ]
        origin = next((each for each in _ORIGINS if all(one in kinds for one in each)), ())
        # A topic that was made anew has the offsets of the old one again: where there are keys, they alone count.
        wanted = set() if any(column in _KEYS for column, _, _ in matches) or not origin else self._places()
        conditions = [f"{table.quoted(column)} = {text}" for column, text, _ in matches]
        if wanted:
            conditions += self._by_origin(origin)
        count = self._rows_of(table, matches, origin, wanted) if conditions else 0
        if count:
            self._conditions[name] = conditions
        kept = "deleted, and files of older versions removed" if count else "-"
        return KeyFound(name, table.format, count, kept)

    def _is_key(self, column: str) -> bool:
        return column in _KEYS or column in self._columns

    def _places(self) -> set[Row]:
        return {
            (place.topic, place.partition, offset) for place, offsets in self._offsets.items() for offset in offsets
        }

    def _rows_of(
        self, table: FoundTable, matches: Sequence[tuple[str, str, Any]], origin: Sequence[str], wanted: set[Row]
    ) -> int:
        """How many rows have the key, or come from one of its messages. Where the former come from is noted."""
        count = 0
        for rows in table.batches(list(dict.fromkeys([*(one[0] for one in matches), *origin]))):
            has_key = _any(rows, matches)
            places = list(zip(*(rows[one].to_pylist() for one in origin), strict=True)) if origin else []
            from_it = [place in wanted for place in places] if wanted else [False] * rows.num_rows
            count += sum(map(or_, has_key, from_it))
            for topic, partition, offset in compress(places, has_key):
                self._note({Place(topic, partition): [offset]})
        return count

    def _by_origin(self, origin: Sequence[str]) -> Iterator[str]:
        """Rows without a key that say which message they come from, like the quarantine's."""
        topic, partition, offset = origin
        for place, offsets in self._offsets.items():
            listed = ", ".join(map(str, sorted(set(offsets))))
            yield f"({topic} = '{place.topic}' AND {partition} = {place.partition} AND {offset} IN ({listed}))"

    def _delete(self, name: str, conditions: Sequence[str]) -> KeyRemoved:
        table = FoundTable(f"{self._lake}/{name}")
        removed = table.delete(" OR ".join(conditions))
        return KeyRemoved(
            name, table.format, removed, table.purge(), "older versions of the table can no longer be read"
        )


def _all_of(node: Cluster, topic: str) -> list[OffsetRange]:
    places = [Place(topic, partition) for partition in node.partitions(topic)]
    first, last = node.earliest(places), node.latest(places, "read_uncommitted")
    return [OffsetRange(*place, first[place], last[place]) for place in places if last[place] > first[place]]


def _stay_until(count: int, newest_ms: int, settings: Mapping[str, str]) -> str:
    if not count:
        return "-"
    retention_ms = int(settings.get("retention.ms") or -1)
    if retention_ms < 0:
        return (
            "they stay: a log cannot lose single messages, and this one keeps all; set retention.ms or delete the topic"
        )
    last = dt.datetime.fromtimestamp((newest_ms + retention_ms) / 1000, dt.UTC).isoformat(timespec="seconds")
    return f"a log cannot lose single messages; retention removes the last one after {last}"


def _literal(key: str, kind: Any) -> tuple[str, Any] | None:
    """The key as SQL says it, and as Arrow does; None if a column of this type cannot hold it."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"X'{key.encode().hex()}'", key.encode()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "'{}'".format(key.replace("'", "''")), key
    if pa.types.is_integer(kind) and key.removeprefix("-").isdecimal():
        return str(int(key)), int(key)
    return None


def _any(rows: pa.RecordBatch, matches: Sequence[tuple[str, str, Any]]) -> list[bool]:
    """Of each row, whether one of these columns has its value."""
    found = [False] * rows.num_rows
    for column, _, value in matches:
        same = pc.fill_null(pc.equal(rows[column], pa.scalar(value, rows[column].type)), False)
        found = list(map(or_, found, same.to_pylist()))
    return found
