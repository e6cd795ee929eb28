"""Whose a checkpoint is: no other pipeline goes on from it, nor the same one with state that no longer fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from pyarrow import fs
from pyspark.sql import DataFrame

from goqueue.pipeline.definition.lake_notes import NoteUnreadable, place_of, read_note, write_note
from goqueue.pipeline.definition.sinks import SinkPlace
from goqueue.pipeline.definition.words import PipelineSink
from goqueue.pipeline.link.errors import PipelineError

_STREAM: Final = "StreamingRelationV2"  # Spark's name for a source of a plan that is not run yet
_NOTE: Final = "goqueue-pipeline.json"
_LOG_OF_FILES: Final = "_spark_metadata"  # of a sink with files
# Operators of a plan that keep something between batches.
_STATEFUL: Final = re.compile(
    r"^[\s:+\-~]*((?:Aggregate|Deduplicate|DeduplicateWithin|Join|EventTimeWatermark|FlatMapGroups|TransformWith|Sort).*)$"
)
_NUMBERS: Final = re.compile(r"#\d+L?|\[id=[^\]]*\]|plan_id=\d+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}, ")


class CheckpointMismatch(PipelineError):
    """The checkpoint cannot be gone on from."""


class CheckpointOwner(msgspec.Struct, frozen=True):
    """`reads` are the topics that the rows come from, in the order by which Spark numbers them in the checkpoint.

    `state` is what is kept between batches. `topics` are all of the pipeline, by view: older notes have these alone.
    """

    pipeline: str
    sink: str
    topics: dict[str, str]
    state: list[str]
    reads: list[str] | None = None


def identity(place: SinkPlace, sink: str, rows: DataFrame, topics: Mapping[str, str]) -> CheckpointOwner:
    return CheckpointOwner(place.pipeline, sink, dict(topics), stateful(rows), read_topics(rows))


def read_topics(rows: DataFrame) -> list[str]:
    """Of a stream's plan, from left to right."""
    leaves = rows._jdf.queryExecution().analyzed().collectLeaves()
    found = [leaves.apply(number) for number in range(leaves.size())]
    streams = [one for one in found if one.getClass().getSimpleName() == _STREAM]
    return [str(one.extraOptions().get("subscribe")) for one in streams]


def stateful(rows: DataFrame) -> list[str]:
    """The operators with state, in Spark's words without its running numbers."""
    plan = str(rows._jdf.queryExecution().analyzed().toString())
    found = (_STATEFUL.match(line) for line in plan.splitlines())
    return _without_numbers(one[1] for one in found if one is not None)


def _without_numbers(operators: Iterable[str]) -> list[str]:
    """Spark numbers columns and names watermarks anew each time."""
    return [_NUMBERS.sub("", one).strip() for one in operators]


def claim(place: SinkPlace, wanted: CheckpointOwner) -> None:
    """Notes whose checkpoint it is, or refuses one that is another's or whose state does not fit any more."""
    where = place.checkpoint(wanted.sink)
    note = f"{where}/{_NOTE}"
    try:
        known = read_note(note, CheckpointOwner)
    except NoteUnreadable as error:
        raise CheckpointMismatch(f"The checkpoint {where} cannot be used: {error}") from None
    if known is None:
        _check_unclaimed(where)
    else:
        _check_same(where, known, wanted)
    if known != wanted:
        write_note(note, wanted)


def check_folder(place: SinkPlace, sink: PipelineSink, anew: bool) -> None:
    """Refuses a folder of files that another checkpoint wrote, where this one begins or is to begin `anew`.

    Spark keeps the numbers of the batches in the folder, and leaves out without a word what has one of them again.
    """
    if sink.file is None or (not anew and _has_begun(place.checkpoint(sink.id))):
        return
    where = place.file(sink.file)
    if has_files(where):
        told = f"{where} has the files of another checkpoint, and Spark would leave out rows that come there anew."
        raise CheckpointMismatch(f"{told} Name another folder in sink {sink.target!r}, or move this one away.")


def has_files(where: str) -> bool:
    """Whether a query of Spark has written files to the folder."""
    return _is_there(f"{where}/{_LOG_OF_FILES}")


def _has_begun(where: str) -> bool:
    return _is_there(f"{where}/metadata")


def _is_there(where: str) -> bool:
    system, path = place_of(where)
    return system.get_file_info(path).type is not fs.FileType.NotFound


def _check_unclaimed(where: str) -> None:
    if _has_begun(where):
        raise CheckpointMismatch(f"{where} is the checkpoint of something else; choose another name or lake.")


def _check_same(where: str, known: CheckpointOwner, wanted: CheckpointOwner) -> None:
    anew = "Run it with --from-scratch to begin anew, or give the sink another name."
    if (known.pipeline, known.sink) != (wanted.pipeline, wanted.sink):
        raise CheckpointMismatch(f"{where} is the checkpoint of {known.pipeline}/{known.sink}. {anew}")
    _check_topics(known, wanted, anew)
    kept = _without_numbers(known.state)  # notes of older versions have some
    if kept != wanted.state:
        changed = next((one for one in wanted.state if one not in kept), "something is gone")
        raise CheckpointMismatch(f"What {wanted.sink} keeps between batches changed ({changed[:200]}). {anew}")


def _check_topics(known: CheckpointOwner, wanted: CheckpointOwner, anew: str) -> None:
    """Spark knows its sources by their number alone: where one comes or goes, others would get its offsets."""
    if known.reads is None or wanted.reads is None:
        is_same, before, now = known.topics == wanted.topics, list(known.topics.values()), list(wanted.topics.values())
    else:
        is_same, before, now = known.reads == wanted.reads, known.reads, wanted.reads
    if not is_same:
        raise CheckpointMismatch(f"{wanted.sink} read {', '.join(before)} before, and now {', '.join(now)}. {anew}")


def forget(place: SinkPlace, sink: str) -> None:
    """Takes the checkpoint away. Tables and topics keep what they have."""
    system, path = place_of(place.checkpoint(sink))
    if system.get_file_info(path).type is fs.FileType.Directory:
        system.delete_dir(path)
