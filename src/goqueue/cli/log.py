"""`goqueue log dump`: what is in a partition's files, without a node."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
import msgspec

from goqueue.cli.failures import Failed, Misused
from goqueue.cli.options import CommandGroup, output_option
from goqueue.cli.segments import Damage, FoundBatch, SegmentFile, scan, segments_at
from goqueue.cli.show import bytes_text, counted, headers_text, print_json_line, remark, time_text
from goqueue.cli.yaml_text import to_yaml
from goqueue.client.messages import json_content
from goqueue.format.batch import BatchHeader
from goqueue.format.compression import CODECS
from goqueue.format.records import Record

_CODEC_NAMES: Final = {0: "none"} | {number: name for name, number in CODECS.items()}
_ROW: Final = "{:>12} {:>24} {:>7} {:<7} {:<24} {:<24} {:<20} {:>10} {:<3} {}"
_HEAD: Final = ("POSITION", "OFFSETS", "COUNT", "CODEC", "FIRST TIME", "LAST TIME", "PRODUCER", "BYTES", "CRC", "NOTES")


class LogCounts(msgspec.Struct):
    """What was seen so far."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    damaged: int = 0


@click.group(cls=CommandGroup)
def log() -> None:
    """Look into stored files, without a node."""


@log.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--records", "with_records", is_flag=True, help="Show the records of each batch too.")
@output_option
def dump(path: Path, with_records: bool, output: str) -> None:
    """Show every batch of a segment file, or of a partition's directory, and check it.

    PATH is like data/logs/TOPIC/PARTITION. Nothing is changed. The exit code is 1 if anything is damaged. With a node
    running, the last batch may show as cut because it is just being written.
    """
    segments, foreign = segments_at(path)
    if not segments:
        raise Misused(f"There are no segment files in {path}; name a directory like data/logs/TOPIC/PARTITION.")
    show = _SHOWN[output]
    tally = LogCounts()
    for segment in segments:
        tally.segments += 1
        tally.size_bytes += segment.path.stat().st_size
        if output == "table":
            click.echo(f"{segment.path.name}\n{_ROW.format(*_HEAD)}".rstrip())
        for one in scan(segment, with_records):
            _count(tally, one)
            show(segment, one)
    if foreign:
        remark(f"{counted(len(foreign), 'other file')} left alone: {', '.join(foreign[:5])}")
    _sum_up(tally)


def _count(tally: LogCounts, one: FoundBatch | Damage) -> None:
    if one.problem is not None:
        tally.damaged += 1
    elif isinstance(one, FoundBatch):
        tally.batches += 1
        tally.records += one.header.record_count


def _sum_up(tally: LogCounts) -> None:
    seen = (
        f"{counted(tally.segments, 'segment')}, {counted(tally.batches, 'sound batch')}, "
        f"{counted(tally.records, 'record')}, {counted(tally.size_bytes, 'byte')}"
    )
    if tally.damaged:
        raise Failed(f"{counted(tally.damaged, 'damaged place')} ({seen})")
    remark(f"{seen}: no damage")


# --- text ---------------------------------------------------------------------------------------------


def _show_text(segment: SegmentFile, one: FoundBatch | Damage) -> None:
    if isinstance(one, Damage):
        place = f"{one.position}..{one.end}" if one.end > one.position else "file"
        click.echo(f"{place:>12} DAMAGED: {counted(one.end - one.position, 'byte')}. {one.problem}")
        return
    click.echo(_row(one).rstrip())
    for record in one.records:
        click.echo(_record_text(record, one.header.is_control))


def _row(found: FoundBatch) -> str:
    header = found.header
    return _ROW.format(
        found.position,
        f"{header.base_offset}..{header.last_offset}",
        header.record_count,
        _codec(header),
        time_text(header.base_timestamp),
        time_text(header.max_timestamp),
        _producer(header),
        header.size,
        "ok" if found.crc_ok else "BAD",
        "; ".join(_notes(found)),
    )


def _codec(header: BatchHeader) -> str:
    return _CODEC_NAMES.get(header.codec, f"?{header.codec}")


def _producer(header: BatchHeader) -> str:
    """Id, epoch, first sequence; a dash if the producer is not idempotent."""
    if header.producer_id < 0:
        return "-"
    return f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}"


def _notes(found: FoundBatch) -> list[str]:
    header = found.header
    notes = [f"epoch {header.leader_epoch}"] if header.leader_epoch > 0 else []
    notes += ["transactional"] * header.is_transactional + ["control"] * header.is_control
    notes += ["append time"] * header.uses_append_time
    return notes + ([f"DAMAGED: {found.problem}"] if found.problem else [])


def _record_text(record: Record, is_control: bool) -> str:
    if is_control:
        return f"{'':>12} {record.offset:>24} {_control(record)}"
    return (
        f"{'':>12} {record.offset:>24} {time_text(record.timestamp_ms)} key={bytes_text(record.key)} "
        f"headers={headers_text(record.headers)} value={bytes_text(record.value)}"
    )


def _control(record: Record) -> str:
    """A control record's key is a version and a type, two bytes each."""
    kind = int.from_bytes((record.key or b"")[2:4], "big")
    return {0: "abort", 1: "commit"}.get(kind, f"control type {kind}")


# --- JSON ---------------------------------------------------------------------------------------------


def _show_json(segment: SegmentFile, one: FoundBatch | Damage) -> None:
    """One object a line."""
    print_json_line(_told(segment, one))


def _show_yaml(segment: SegmentFile, one: FoundBatch | Damage) -> None:
    """One entry of a list."""
    click.echo(to_yaml([_told(segment, one)]))


def _show_name(segment: SegmentFile, one: FoundBatch | Damage) -> None:
    """Where it is."""
    click.echo(f"{segment.path.name}:{one.position}")


_SHOWN: Final = {"table": _show_text, "json": _show_json, "yaml": _show_yaml, "name": _show_name}


def _told(segment: SegmentFile, one: FoundBatch | Damage) -> dict[str, object]:
    told: dict[str, object] = {"segment": segment.path.name, "position": one.position}
    if isinstance(one, Damage):
        return told | {"size_bytes": one.end - one.position, "damaged": True, "problem": one.problem}
    header = one.header
    told |= {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "size_bytes": header.size,
        "codec": _codec(header),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "leader_epoch": header.leader_epoch,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc_ok": one.crc_ok,
        "damaged": one.problem is not None,
    }
    if one.problem:
        told["problem"] = one.problem
    if records := [_record_json(record) for record in one.records]:
        told["records"] = records
    return told


def _record_json(record: Record) -> dict[str, object]:
    content = json_content(record.key, record.value, record.headers)
    return {"offset": record.offset, "timestamp": record.timestamp_ms, **content}
