"""A pipeline replayed from a time: what it wrote since is taken back where that can be exact, then it is read again.

The order is a note beside the pipeline's file; the next start carries it out and takes the note away. A start that
dies halfway finds the note and does the same again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.base.times import time_text
from goqueue.pipeline.definition.checkpoints import forget, has_files
from goqueue.pipeline.definition.lake_notes import read_note, remove_note, write_note
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.serving import REPLAY
from goqueue.pipeline.definition.sinks import SinkPlace
from goqueue.pipeline.definition.words import PipelineSink
from goqueue.pipeline.lake.either import FoundTable, exists, missing
from goqueue.pipeline.link.cluster import Cluster, cluster
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.place import Place

_ORIGIN: Final = ("_topic", "_partition", "_offset")


class CannotReplay(PipelineError):
    """Rows would be there twice, and that was not asked for."""


class ReplayOrder(msgspec.Struct, frozen=True):
    """Read everything since `from_ms` again. With `again`, rows that cannot be taken back are written once more."""

    from_ms: int
    again: bool = False


class ReplayBegin(msgspec.Struct, frozen=True):
    """Where a pipeline begins if it has no checkpoint: where its last replay did."""

    from_ms: int


def order(file: Path, wanted: ReplayOrder) -> None:
    file.with_suffix(REPLAY).write_bytes(msgspec.json.encode(wanted))


def ordered(file: Path) -> ReplayOrder | None:
    try:
        return from_json(file.with_suffix(REPLAY).read_bytes(), ReplayOrder)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise PipelineError(f"{file.with_suffix(REPLAY)} is no replay: {error}; take it away.") from None


def what_replay_does(file: PipelineFile, lake: str, wanted: ReplayOrder) -> list[str]:
    """A line for each sink, or `CannotReplay`. Needs neither Spark nor a node."""
    if not any(one.topic is not None for one in file.definition.source):
        raise CannotReplay(f"{file.definition.name} reads no topic; running it again makes everything anew.")
    return [_what_becomes(file, one, lake, wanted) for one in file.definition.sink]


def _what_becomes(file: PipelineFile, sink: PipelineSink, lake: str, wanted: ReplayOrder) -> str:
    since = time_text(wanted.from_ms)
    if sink.file is not None and has_files(file.place(sink.file)):
        raise CannotReplay(f"{sink.target} cannot take rows again: Spark would leave them out. Name another folder.")
    if sink.mode == "merge":
        return f"{sink.target}: rows since {since} are merged again; windows that began before begin at that time"
    if sink.table is not None and sink.mode == "append" and _is_traceable(f"{lake}/{sink.table}"):
        return f"{sink.target}: rows of messages since {since} are deleted, and written again"
    if not wanted.again:
        how = (
            "keep _topic, _partition and _offset in its rows, or use a merge"
            if sink.table is not None
            else "what was written there cannot be taken back"
        )
        about = f"{sink.target} would have rows since {since} twice or lose older ones"
        raise CannotReplay(f"{about}: {how}. With --again it is done anyway.")
    return f"{sink.target}: rows since {since} are written once more"


def _is_traceable(path: str) -> bool:
    return not exists(path) or not missing(path, _ORIGIN)


def begun_at(place: SinkPlace) -> int | None:
    """Where a new checkpoint begins, if the pipeline was ever replayed."""
    found = read_note(_note(place), ReplayBegin)
    return None if found is None else found.from_ms


def forget_begin(place: SinkPlace) -> None:
    remove_note(_note(place))


def _note(place: SinkPlace) -> str:
    return place.checkpoint("replayed.json")


def carry_out(file: PipelineFile, place: SinkPlace, wanted: ReplayOrder, sinks: list[str]) -> None:
    """Takes back what can be, and forgets how far the pipeline is. `sinks` are the names of its checkpoints."""
    what_replay_does(file, place.lake, wanted)
    topics = sorted({one.topic for one in file.definition.source if one.topic is not None})
    since = _offsets(
        cluster(doors(place.node.get("kafka.bootstrap.servers"), place.node.get("url")).kafka), topics, wanted
    )
    if since:
        _take_back(file, place, since)
    for name in sinks:
        forget(place, name)
    write_note(_note(place), ReplayBegin(wanted.from_ms))


def done(file: Path) -> None:
    """The queries run: the order is carried out."""
    file.with_suffix(REPLAY).unlink(missing_ok=True)


def _offsets(node: Cluster, topics: list[str], wanted: ReplayOrder) -> Mapping[Place, int]:
    places = [Place(topic, partition) for topic in topics for partition in node.partitions(topic)]
    found = node.at_time(places, dict.fromkeys(places, wanted.from_ms))
    return {place: offset for place, offset in found.items() if offset is not None}


def _take_back(file: PipelineFile, place: SinkPlace, since: Mapping[Place, int]) -> None:
    """Deletes rows that come of messages which are read again, in tables and in the quarantine."""
    asked = file.definition
    own = {one.table for one in asked.sink if one.table is not None and one.mode == "append"}
    for name in asked.tables():
        path = place.table(name)
        if not exists(path):
            continue
        if name in own and _is_traceable(path):
            FoundTable(path).delete(_condition(since, "_"))
        elif name not in {one.table for one in asked.sink}:
            FoundTable(path).delete(f"pipeline = '{asked.name}' AND ({_condition(since, '')})")


def _condition(since: Mapping[Place, int], prefix: str) -> str:
    return " OR ".join(
        f"({prefix}topic = '{place.topic}' AND {prefix}partition = {place.partition} AND {prefix}offset >= {offset})"
        for place, offset in sorted(since.items())
    )
