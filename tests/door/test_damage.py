"""Damage on the real disk, seen through REST: cut or fenced off and reported, never served and never silent."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess

SEGMENTS = {"GOQUEUE_TOPICS_SEGMENT_BYTES": "4096"}
# After a clean stop the journal holds nothing. After a kill it holds what was written last, and would put it right.
JOURNAL = {"stop": {}, "kill": {"GOQUEUE_LOG_JOURNAL_BYTES": "0"}}


def fill(node: NodeProcess, count: int) -> None:
    with httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        for number in range(count):
            message = {"value": f"{number:04d}" + "v" * 100}
            client.post("/topics/t/messages", json={"messages": [message]}).raise_for_status()


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def segment_files(node: NodeProcess) -> list[Path]:
    return sorted((node.data_dir / "logs" / "t" / "0").glob("*.log"))


def read_from(node: NodeProcess, offset: int) -> httpx.Response:
    return httpx.get(f"{node.url}/topics/t/partitions/0/messages", params={"offset": offset, "limit": 1000})


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_flipped_bit_in_the_tail_batch_is_cut(tmp_path: Path, end: str) -> None:
    node = NodeProcess(tmp_path / "data", "--fsync", "always", settings=JOURNAL[end]).start()
    fill(node, 10)
    getattr(node, end)()
    (file,) = segment_files(node)
    flip(file, -5)
    with node:
        page = read_from(node, 0).json()
        assert [one["value"][:4] for one in page["messages"]] == [f"{number:04d}" for number in range(9)]
        assert page["high_watermark"] == 9
        assert "cut" in node.block and "log cut at the last whole batch" in node.stderr
        placed = httpx.post(f"{node.url}/topics/t/messages", json={"messages": [{"value": "next"}]}).json()
        assert placed["results"][0]["offset"] == 9


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("which", [0, -1], ids=["sealed", "active"])
def test_damage_in_the_middle_is_fenced_off_and_everything_else_served(tmp_path: Path, which: int, end: str) -> None:
    node = NodeProcess(tmp_path / "data", "--fsync", "always", settings=SEGMENTS | JOURNAL[end]).start()
    fill(node, 100)
    getattr(node, end)()
    file = segment_files(node)[which]
    base = int(file.stem)
    size = len(file.read_bytes()) // (100 - base if which else int(segment_files(node)[1].stem))
    bad = base + 3
    flip(file, 3 * size + 100)
    with node:
        good = [one["offset"] for one in read_from(node, 0).json()["messages"]] if bad else []
        assert good[-1] == bad - 1, "reading stops before the damage"
        refused = read_from(node, bad)
        told = refused.json()
        assert (refused.status_code, told["code"]) == (500, "damaged-range")
        assert (told["first_offset"], told["last_offset"], told["next_offset"]) == (bad, bad, bad + 1)
        rest = [one["offset"] for one in read_from(node, bad + 1).json()["messages"]]
        assert rest == list(range(bad + 1, 100))
        (partition,) = httpx.get(f"{node.url}/topics/t/partitions").json()["partitions"]
        assert partition["damaged"] == [{"first_offset": bad, "last_offset": bad}]
        assert "damaged bytes quarantined" in node.stderr
        assert "goqueue_storage_damaged_ranges_total 1.0" in httpx.get(f"{node.url}/metrics").text
    with node:
        assert read_from(node, bad).json()["code"] == "damaged-range", "it stays known"


def test_damage_to_what_was_written_last_is_put_right_by_the_journal(tmp_path: Path) -> None:
    hour = {"GOQUEUE_LOG_FSYNC_INTERVAL_MS": "1h"}  # the logs are not synced meanwhile
    node = NodeProcess(tmp_path / "data", "--fsync", "always", settings=hour).start()
    fill(node, 50)
    node.kill()
    (file,) = segment_files(node)
    for position in (1000, -5):
        flip(file, position)
    with node:
        page = read_from(node, 0).json()
        assert [one["value"][:4] for one in page["messages"]] == [f"{number:04d}" for number in range(50)]
        assert "from the journal" in node.block


def test_a_damaged_entry_of_the_journal_is_named_by_the_start(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", "--fsync", "always").start()
    fill(node, 20)
    node.kill()
    flip(node.data_dir / "journal-0", 3 * 4096 + 100)
    with node:
        assert len(read_from(node, 0).json()["messages"]) == 20, "a kill takes nothing from the log"
        assert "1 damaged entries in the journal" in node.block and "damaged entry in the journal" in node.stderr
        assert "goqueue_storage_journal_damaged_total 1.0" in httpx.get(f"{node.url}/metrics").text


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".seal"])
@pytest.mark.parametrize("how", ["missing", "flipped", "empty"])
def test_a_missing_or_damaged_index_is_rebuilt(tmp_path: Path, suffix: str, how: str) -> None:
    node = NodeProcess(tmp_path / "data", "--fsync", "always", settings=SEGMENTS).start()
    fill(node, 60)
    node.stop()
    for file in (node.data_dir / "logs" / "t" / "0").glob(f"*{suffix}"):
        if how == "missing":
            file.unlink()
        elif how == "flipped":
            flip(file, -9)
        else:
            file.write_bytes(b"")
    with node:
        for start in (0, 17, 59):
            assert [one["offset"] for one in read_from(node, start).json()["messages"]] == list(range(start, 60))
        assert "quarantined" not in node.block


def test_a_vanished_segment_is_an_error_not_silence(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", "--fsync", "always", settings=SEGMENTS).start()
    fill(node, 100)
    node.stop()
    files = segment_files(node)
    files[1].unlink()
    first, after = int(files[1].stem), int(files[2].stem)
    with node:
        told = read_from(node, first).json()
        assert (told["code"], told["next_offset"]) == ("damaged-range", after)
        assert [one["offset"] for one in read_from(node, after).json()["messages"]] == list(range(after, 100))
