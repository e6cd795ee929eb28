"""`docs/file-formats.md` is enough to read the files of a node: they are read here by its tables, and nothing else."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest
from crc32c import crc32c

from bench.node_process import NodeProcess
from tests.cli.running import goqueue

PAGE: Final = (Path(__file__).parents[2] / "docs/file-formats.md").read_text()
ORDERS: Final = "logs/orders/0"
VALUES: Final = [f"order {number} " + 1000 * "x" for number in range(30)]
_CODES: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "uint64": "Q"}


# --- what the page says -----------------------------------------------------------------------------------


def section(heading: str) -> str:
    """The text below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def rows(text: str, head: str) -> list[list[list[str]]]:
    """The tables with that head, row by row, cell by cell."""
    tables = re.findall(rf"^\| {re.escape(head)}[^\n]*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[line.strip("| ").split(" | ") for line in one.splitlines()] for one in tables]


def fields(heading: str) -> set[str]:
    """Of a note."""
    return {row[0].strip("`") for row in rows(section(heading), "field")[0]}


class Layout:
    """The fields of a table, which lie one behind the other."""

    def __init__(self, table: list[list[str]], order: str) -> None:
        self._names, codes, at = [], "", 0
        for begin, size, kind, text in table:
            assert int(begin) == at, text
            codes += f"{size}s" if kind == "bytes" else _CODES[kind]
            at += int(size)
            self._names.append(text.partition(":")[0])
        self._struct = struct.Struct(order + codes)
        assert self._struct.size == at
        self.size = at

    def read(self, data: bytes, at: int = 0) -> dict[str, Any]:
        return dict(zip(self._names, self._struct.unpack_from(data, at), strict=True))


def layouts(heading: str) -> list[Layout]:
    text = section(heading)
    order = ">" if "big-endian" in text else "<"
    assert ("big-endian" in text) != ("little-endian" in text)
    return [Layout(table, order) for table in rows(text, "at")]


def note(data: bytes) -> Any:
    """JSON behind its checksum."""
    crc, body = data[:8], data[9:].rstrip()
    assert data[8:9] == b" "
    assert int(crc, 16) == crc32c(body)
    return json.loads(body)


def batches(data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Headers and records of whole batches."""
    (header,) = layouts("Segments: `N.log`")
    at = 0
    while at < len(data):
        found = header.read(data, at)
        end = at + found["length"] + 12
        assert found["magic"] == 2
        assert found["crc"] == crc32c(data[at + 21 : end])
        yield found, data[at + header.size : end]
        at = end


# --- a real node's files ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`killed` is the directory of a node that was killed under `fsync=always`, `backup` a backup of it before that."""
    found = tmp_path_factory.mktemp("formats")
    settings = {"GOQUEUE_LOG_FSYNC": "always", "GOQUEUE_TOPICS_SEGMENT_BYTES": "16KiB"}
    node = NodeProcess(found / "killed", settings=settings).start()
    try:
        with httpx.Client(base_url=node.url, timeout=60) as client:
            _use(client)
        done = goqueue("backup", str(found / "backup"), server=node.url)
        assert done.exit_code == 0, done.stderr
    finally:
        node.kill()
    return found


def _use(client: httpx.Client) -> None:
    client.post("/topics", json={"name": "orders", "num_partitions": 1}).raise_for_status()
    for value in VALUES:
        _publish(client, {"key": "k", "value": value})
    _publish(client, {"value": "later", "delay": "1h"})
    body = {"client_id": "a", "member_id": "a", "topics": ["orders"], "mode": "shared"}
    joined = client.post("/groups/g/join", json=body).raise_for_status().json()
    asked = {"member_id": "a", "generation": joined["generation"], "limit": 5, "timeout": "10s"}
    taken = client.get("/groups/g/poll", params=asked).raise_for_status().json()["messages"]
    client.post("/messages/ack", json={"receipts": [one["receipt"] for one in taken[:2]]}).raise_for_status()


def _publish(client: httpx.Client, message: dict[str, str]) -> None:
    client.post("/topics/orders/messages", json={"messages": [message]}).raise_for_status()


# --- the tests --------------------------------------------------------------------------------------------


def test_segments_hold_what_was_sent(folder: Path) -> None:
    segments = sorted((folder / "killed" / ORDERS).glob("*.log"))
    assert len(segments) > 1
    offset, found = 0, b""
    for segment in segments:
        assert int(segment.stem) == offset
        for header, records in batches(segment.read_bytes()):
            assert header["base offset"] == offset
            offset += header["last offset delta"] + 1
            found += records
    assert offset == len(VALUES)
    assert all(value.encode() in found for value in VALUES)


def test_a_seal_and_its_indexes_fit_their_segment(folder: Path) -> None:
    first = folder / "killed" / ORDERS / f"{0:020d}"
    data, seal = first.with_suffix(".log").read_bytes(), note(first.with_suffix(".seal").read_bytes())
    assert set(seal) == fields("Seal: `N.seal`")
    assert (seal["length"], seal["crc"]) == (len(data), crc32c(data))
    positions, at = {}, 0
    for header, _ in batches(data):
        positions[header["base offset"]], at = at, at + header["length"] + 12
    (head,) = layouts("Indexes: `N.index` and `N.timeindex`")
    for suffix, kind in ((".index", 1), (".timeindex", 2)):
        stored = first.with_suffix(suffix).read_bytes()
        found, body = head.read(stored), stored[head.size :]
        assert (found["magic"], found["version"], found["kind"], found["covers"]) == (b"GQIX", 1, kind, len(data))
        assert found["crc"] == crc32c(body)
        numbers = struct.unpack(f"<{len(body) // 8}Q", body)
        assert len(numbers) == kind * found["entries"] > 1
        if kind == 1:
            assert all(positions[number >> 32] == number & 0xFFFFFFFF for number in numbers)
        else:
            assert all(offset in positions for offset in numbers[found["entries"] :])


def test_the_notes_of_a_partition_have_the_fields_that_the_page_names(folder: Path) -> None:
    home = folder / "killed" / ORDERS
    assert set(note((home / "meta.json").read_bytes())) == fields("Partition: `meta.json`")
    stored = (home / "checkpoint").read_bytes()
    slots = [note(slot) for slot in (stored[:512], stored[512:]) if slot.strip()]
    assert all(set(slot) == fields("Checkpoint") for slot in slots)
    newest = max(slots, key=lambda slot: slot["sync"])
    assert newest["base_offset"] == max(int(path.stem) for path in home.glob("*.log"))
    for number, slot in enumerate(slots):
        assert slot["sync"] % 2 == number


def test_the_journal_holds_batches_that_stand_in_the_segments(folder: Path) -> None:
    label, entry, part = layouts("The journal: `journal-0` and `journal-1`")
    logs = {path.parent: b"" for path in (folder / "killed").glob("logs/*/*/*.log")}
    for home in logs:
        logs[home] = b"".join(path.read_bytes() for path in sorted(home.glob("*.log")))
    numbers: list[int] = []
    for name in ("journal-0", "journal-1"):
        data = (folder / "killed" / name).read_bytes()
        named = label.read(data)
        assert (named["magic"], named["version"], named["crc"]) == (b"GQJL", 1, crc32c(data[:16]))
        at = 4096
        while data.startswith(b"GQJE" + named["key"], at):
            found = entry.read(data, at)
            begin = at + entry.size
            end = begin + found["length"]
            assert found["crc"] == crc32c(data[at + 16 : end])
            assert found["live from"] <= found["number"]
            numbers.append(found["number"])
            while begin < end:
                one = part.read(data, begin)
                sizes = (one["directory bytes"], one["topic id bytes"], one["batch bytes"])
                begin += part.size
                directory = data[begin : begin + sizes[0]].decode()
                begin += sum(sizes)
                held = data[begin - sizes[2] : begin]
                assert held in logs[folder / "killed" / directory]
                assert list(batches(held))
            assert begin == end
            at += -(-(end - at) // 4096) * 4096
    assert numbers == list(range(min(numbers), max(numbers) + 1))


def test_metadata_is_a_note_for_each_key(folder: Path) -> None:
    home = folder / "killed/metadata"
    for path in home.rglob("*.v"):
        entry = note(path.read_bytes())
        assert set(entry) == fields("Metadata")
        assert entry["key"] == str(path.relative_to(home))[:-2]
    topic = json.loads(note((home / "topics/orders.v").read_bytes())["value"])
    said = next(row for row in rows(section("Metadata"), "key")[0] if row[0].startswith("`topics/"))
    assert set(topic) == set(re.findall(r"`(\w+)`", said[1]))


def test_every_file_is_in_the_list(folder: Path) -> None:
    for heading, root in (("Every file of a data directory", "killed"), ("A backup", "backup")):
        known = [name for row in rows(section(heading), "file")[0] for name in re.findall(r"`([^`]+)`", row[0])]
        patterns = [re.compile(_pattern(name)) for name in known]
        for path in (folder / root).rglob("*"):
            name = re.sub(r"-(wal|shm)$", "", str(path.relative_to(folder / root)))
            assert path.is_dir() or any(pattern.fullmatch(name) for pattern in patterns), name


_WORDS: Final = {"TOPIC": "[^/]+", "SHA256": "[0-9a-f]{64}", "XX": "[0-9a-f]{2}", "TIME": r"[\dTZ.]+", "ID": r"[\w-]+"}
_NUMBERS: Final = {"NUMBER": r"\d+", "POSITION": r"\d+", "N": r"\d{20}", "P": r"\d+"}
_PARTS: Final = {**_WORDS, **_NUMBERS, "*": "[^/]+", "…": ".*"}


def _pattern(name: str) -> str:
    pieces = re.split(r"([A-Z]+\d*|\*|…)", name)
    return "".join(_PARTS.get(piece, re.escape(piece)) for piece in pieces)


def test_the_topics_of_the_broker_have_the_keys_that_the_page_names(folder: Path) -> None:
    wanted = {
        "__consumer_offsets": [msgspec.msgpack.encode((1, "group", "g"))],
        "__goqueue_deliveries": [msgspec.msgpack.encode(("g", "orders", 0))],
        "__goqueue_schedule": [b"e" + struct.pack(">q", 0), b"later"],
    }
    for topic, pieces in wanted.items():
        found = [
            records
            for path in (folder / "killed/logs" / topic).glob("*/*.log")
            for _, records in batches(path.read_bytes())
        ]
        assert all(any(piece in records for records in found) for piece in pieces), topic


def test_the_ring_of_numbers_has_the_size_that_the_page_says(folder: Path) -> None:
    (head,) = layouts("History")
    found = head.read((folder / "killed/history.ring").read_bytes())
    said = {name: int(number) for name, number in re.findall(r"\| (rows|columns): (\d+) \|", section("History"))}
    assert (found["magic"], found["rows"], found["columns"]) == (b"GQHIST01", said["rows"], said["columns"])


def test_a_backup_can_be_put_together_by_its_manifest(folder: Path) -> None:
    (path,) = (folder / "backup/backups").iterdir()
    manifest = note(path.read_bytes())
    assert set(manifest) == fields("A backup")
    held = {file["path"]: b"".join(_part(folder, *part) for part in file["parts"]) for file in manifest["files"]}
    assert all(len(held[file["path"]]) == file["size_bytes"] for file in manifest["files"])
    first = f"{ORDERS}/{0:020d}.log"
    assert held[first] == (folder / "killed" / first).read_bytes()
    assert f"{ORDERS}/checkpoint" not in held


def _part(folder: Path, name: str, position: int, size: int) -> bytes:
    data = (folder / "backup/objects" / name[:2] / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == name
    return data[position : position + size]


def test_what_may_go_can_be_deleted_and_the_oldest_segment_too(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(folder / "killed", data)
    table = rows(section("Every file of a data directory"), "file")[0]
    known = [name for row in table if row[3].startswith("yes") for name in re.findall(r"`([^`]+)`", row[0])]
    patterns = [re.compile(_pattern(name) + "(-wal|-shm)?") for name in known]
    files = [path for path in data.rglob("*") if path.is_file()]
    gone = [path for path in files if any(one.fullmatch(str(path.relative_to(data))) for one in patterns)]
    assert {path.suffix for path in gone} >= {".index", ".timeindex"}
    for path in (*gone, *(data / ORDERS).glob(f"{0:020d}.*")):
        path.unlink(missing_ok=True)
    with NodeProcess(data) as node, httpx.Client(base_url=node.url, timeout=60) as client:
        (partition,) = client.get("/topics/orders/partitions").raise_for_status().json()["partitions"]
        begin, end = partition["start_offset"], partition["end_offset"]
        asked = {"offset": begin, "limit": 100}
        read = client.get("/topics/orders/partitions/0/messages", params=asked).raise_for_status().json()["messages"]
        delayed = client.get("/topics/orders/delayed").raise_for_status().json()
    assert 0 < begin < end == len(VALUES)
    assert not partition["damaged"]
    assert [one["offset"] for one in read] == list(range(begin, end))
    assert delayed["pending"] == 1
