"""`goqueue log dump` on files made here: sound, damaged, cut, foreign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from goqueue.format.batch import CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, assemble, read_header, stamp
from goqueue.format.compression import CODECS
from goqueue.format.records import NewRecord, build
from goqueue.log.real_disk import RealDisk
from tests.cli.running import goqueue
from tests.log.logs import append, batch, open_at, seal, sync

TIME = 1_767_225_600_000


def at(offset: int, *values: bytes | None, codec: int = 0, key: bytes | None = None) -> bytes:
    """A batch in its place."""
    records = [NewRecord(key, value, (("h", b"\xff"),), TIME) for value in values]
    return b"".join(stamp(build(records, codec), offset, 0))


def segment(directory: Path, *batches: bytes, base: int = 0) -> Path:
    path = directory / f"{base:020}.log"
    path.write_bytes(b"".join(batches))
    return path


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def dumped(path: Path, *flags: str) -> tuple[list[dict[str, Any]], int, str]:
    done = goqueue("log", "dump", str(path), "--output", "json", *flags)
    return [json.loads(line) for line in done.stdout.splitlines()], done.exit_code, done.stderr


THREE = (at(0, b"a", b"b"), at(2, b"c" * 500, codec=CODECS["zstd"]), at(10, None, key=b"k"))


def test_a_sound_segment_shows_every_batch(tmp_path: Path) -> None:
    batches, code, told = dumped(segment(tmp_path, *THREE))
    assert code == 0
    assert told == f"1 segment, 3 sound batches, 4 records, {sum(map(len, THREE)):,} bytes: no damage\n"
    assert [(one["base_offset"], one["last_offset"], one["count"], one["codec"]) for one in batches] == [
        (0, 1, 2, "none"),
        (2, 2, 1, "zstd"),
        (10, 10, 1, "none"),
    ]
    assert [one["position"] for one in batches] == [0, len(THREE[0]), len(THREE[0] + THREE[1])]
    assert [one["size_bytes"] for one in batches] == [len(one) for one in THREE]
    assert all(one["crc_ok"] and not one["damaged"] and one["producer_id"] == -1 for one in batches)


def test_records_are_shown_on_request(tmp_path: Path) -> None:
    batches, _, _ = dumped(segment(tmp_path, *THREE), "--records")
    assert batches[1]["records"][0]["value"] == "c" * 500
    assert batches[2]["records"] == [
        {
            "offset": 10,
            "timestamp": TIME,
            "key": "k",
            "value": None,
            "headers": {"h": {"encoding": "base64", "value": "/w=="}},
        }
    ]


def test_the_text_form_has_a_line_for_each_batch_and_record(tmp_path: Path) -> None:
    done = goqueue("log", "dump", str(segment(tmp_path, *THREE)), "--records")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["00000000000000000000.log"]
    assert lines[1][:3] == ["POSITION", "OFFSETS", "COUNT"]
    moment = "2026-01-01T00:00:00.000Z"
    assert lines[2] == ["0", "0..1", "2", "none", moment, moment, "-", str(len(THREE[0])), "ok"]
    assert lines[3] == ["0", moment, "key=null", "headers=h=base64:/w==", "value=a"]
    assert lines[-1] == ["10", moment, "key=k", "headers=h=base64:/w==", "value=null"]


def test_producers_transactions_and_control_records_are_named(tmp_path: Path) -> None:
    plain = build([NewRecord(b"\0\0\0\1", b"", (), TIME)])
    header = msgspec.structs.replace(
        read_header(plain),
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        producer_id=7,
        producer_epoch=2,
        base_sequence=9,
        leader_epoch=4,
    )
    path = segment(tmp_path, assemble(header, plain[HEADER_BYTES:]))
    done = goqueue("log", "dump", str(path), "--records")
    assert done.exit_code == 0
    assert " 7/2/9 " in done.stdout
    assert "epoch 4; transactional; control" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(" 0 commit")


@pytest.mark.parametrize("place", ["attributes", "body"])
def test_one_flipped_bit_is_found_and_the_rest_is_shown(tmp_path: Path, place: str) -> None:
    path = segment(tmp_path, *THREE)
    flip(path, len(THREE[0]) + (22 if place == "attributes" else HEADER_BYTES + 3))
    batches, code, told = dumped(path)
    assert code == 1
    assert [(one["base_offset"], one["crc_ok"], one["damaged"]) for one in batches] == [
        (0, True, False),
        (2, False, True),
        (10, True, False),
    ]
    assert "CRC" in batches[1]["problem"]
    assert told.startswith("error: 1 damaged place (1 segment, 2 sound batches, 3 records, ")
    assert " BAD " in goqueue("log", "dump", str(path)).stdout


def test_a_flipped_bit_anywhere_under_the_checksum_costs_one_batch(tmp_path: Path) -> None:
    whole = b"".join(THREE)
    start, end = len(THREE[0]), len(THREE[0] + THREE[1])
    # Base offset and leader epoch are stamped by the broker, outside the checksum.
    for position in [*range(start + 8, start + 12), *range(start + 16, end)]:
        path = segment(tmp_path, whole)
        flip(path, position)
        batches, code, _ = dumped(path)
        assert code == 1, position
        assert [one["base_offset"] for one in batches if not one["damaged"]] == [0, 10], position


def test_a_damaged_length_is_a_stretch_of_bytes(tmp_path: Path) -> None:
    path = segment(tmp_path, *THREE)
    flip(path, len(THREE[0]) + 10)
    batches, code, _ = dumped(path)
    assert code == 1
    assert batches[1]["damaged"]
    assert (batches[1]["position"], batches[1]["size_bytes"]) == (len(THREE[0]), len(THREE[1]))
    assert "base_offset" not in batches[1]
    assert batches[2]["base_offset"] == 10
    assert "DAMAGED: " in goqueue("log", "dump", str(path)).stdout


def test_a_batch_inside_a_damaged_record_is_not_taken_for_one(tmp_path: Path) -> None:
    nested = at(5, b"a message that is itself a batch")
    path = segment(tmp_path, at(0, nested), at(6, b"real"))
    flip(path, HEADER_BYTES + 2)
    batches, code, _ = dumped(path)
    assert code == 1
    assert [one["base_offset"] for one in batches] == [0, 6]


def test_a_torn_tail_is_damage(tmp_path: Path) -> None:
    path = segment(tmp_path, *THREE)
    path.write_bytes(path.read_bytes()[:-5])
    batches, code, _ = dumped(path)
    assert code == 1
    assert batches[-1]["problem"] == "The batch is cut short."
    assert batches[-1]["size_bytes"] == len(THREE[2]) - 5


def test_offsets_that_go_back_are_damage_with_a_right_crc(tmp_path: Path) -> None:
    batches, code, _ = dumped(segment(tmp_path, THREE[0], THREE[0], THREE[2]))
    assert code == 1
    assert [(one["crc_ok"], one["damaged"]) for one in batches] == [(True, False), (True, True), (True, False)]


def test_records_that_cannot_be_decoded_are_damage(tmp_path: Path) -> None:
    header = msgspec.structs.replace(read_header(THREE[0]), attributes=CODECS["gzip"])
    path = segment(tmp_path, assemble(header, b"this is no gzip"))
    batches, code, _ = dumped(path, "--records")
    assert code == 1
    assert batches[0]["crc_ok"]
    assert batches[0]["damaged"]


def test_junk_and_an_empty_file(tmp_path: Path) -> None:
    assert dumped(segment(tmp_path))[:2] == ([], 0)
    batches, code, _ = dumped(segment(tmp_path, bytes(range(256)) * 5))
    assert code == 1
    assert batches == [
        {
            "segment": "00000000000000000000.log",
            "position": 0,
            "size_bytes": 1280,
            "damaged": True,
            "problem": batches[0]["problem"],
        }
    ]


def test_a_file_of_any_name_can_be_dumped(tmp_path: Path) -> None:
    path = tmp_path / "copy.bin"
    path.write_bytes(b"".join(THREE))
    assert dumped(path)[1] == 0


def test_a_real_partitions_directory_with_foreign_files(tmp_path: Path) -> None:
    log, _ = open_at(RealDisk(tmp_path), segment_bytes=600)
    for number in range(20):
        append(log, batch(f"{number}-" + "x" * 100))
    sync(log)
    seal(log)
    log.close()
    directory = tmp_path / "logs/orders/0"
    (directory / "notes.txt").write_text("mine")
    (directory / "backup").mkdir()
    batches, code, told = dumped(directory)
    assert code == 0
    assert [one["base_offset"] for one in batches] == list(range(20))
    assert len({one["segment"] for one in batches}) > 3
    assert told.splitlines()[0] == "2 other files left alone: backup, notes.txt"


def test_a_sealed_segment_cut_between_two_batches_is_found_by_its_seal(tmp_path: Path) -> None:
    log, _ = open_at(RealDisk(tmp_path), segment_bytes=600)
    for number in range(12):
        append(log, batch(f"{number}-" + "x" * 100))
    sync(log)
    seal(log)
    log.close()
    directory = tmp_path / "logs/orders/0"
    first = directory / f"{0:020}.log"
    assert first.with_suffix(".seal").exists()
    first.write_bytes(first.read_bytes()[: read_header(first.read_bytes()).size])
    batches, code, _ = dumped(directory)
    assert code == 1
    assert next(one["problem"] for one in batches if one["damaged"]).startswith("The file has ")


def test_dumping_changes_nothing_and_needs_no_right_to_write(tmp_path: Path) -> None:
    path = segment(tmp_path, *THREE)
    path.chmod(0o400)
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert dumped(path)[1] == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_directory_without_segments_is_wrong_usage(tmp_path: Path) -> None:
    done = goqueue("log", "dump", str(tmp_path))
    assert done.exit_code == 2
    assert "data/logs/TOPIC/PARTITION" in done.stderr
