"""kcat, from the command line."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


def kcat(kafka: str, *arguments: str, lines: str = "") -> str:
    assert KCAT is not None
    done = subprocess.run(
        [KCAT, "-b", kafka, *arguments], input=lines, capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_goes_in_comes_out_in_every_codec(kafka: str, topic: str, codec: str) -> None:
    lines = "".join(f"key{number}:value{number}{'x' * 200}\n" for number in range(200))
    sending = ["-P", "-t", topic, "-p", "0", "-K:", "-H", "name=header", "-z", codec]
    if codec == "zstd" and "zstd" not in kcat(kafka, "-X", "list"):
        pytest.skip("this kcat has no zstd")
    kcat(kafka, *sending, lines=lines)
    read = kcat(kafka, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J")
    found = [json.loads(line) for line in read.splitlines()]
    assert "".join(f"{one['key']}:{one['payload']}\n" for one in found) == lines
    assert all(one["headers"] == ["name", "header"] for one in found)


def test_null_keys_and_values(kafka: str, topic: str) -> None:
    kcat(kafka, "-P", "-t", topic, "-p", "0", "-Z", "-K:", lines="only-a-key:\n")
    kcat(kafka, "-P", "-t", topic, "-p", "0", lines="only-a-value\n")
    read = kcat(kafka, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J")
    first, second = (json.loads(line) for line in read.splitlines())
    assert (first["key"], first["payload"]) == ("only-a-key", None)
    assert (second["key"], second["payload"]) == (None, "only-a-value")


def test_offsets_from_the_end_and_by_time(kafka: str, topic: str) -> None:
    kcat(kafka, "-P", "-t", topic, "-p", "0", lines="".join(f"{number}\n" for number in range(50)))
    assert kcat(kafka, "-C", "-t", topic, "-p", "0", "-o", "-3", "-e", "-q").split() == ["47", "48", "49"]
    assert kcat(kafka, "-C", "-t", topic, "-p", "0", "-o", "20", "-c", "2", "-q").split() == ["20", "21"]
    assert kcat(kafka, "-Q", "-t", f"{topic}:0:-2").split()[-1] == "0"
    assert kcat(kafka, "-Q", "-t", f"{topic}:0:1000").split()[-1] == "0"


def test_metadata_and_a_group(kafka: str, topic: str, group: str) -> None:
    listed = json.loads(kcat(kafka, "-L", "-t", topic, "-J"))
    assert [one["partition"] for one in listed["topics"][0]["partitions"]] == [0, 1, 2]
    kcat(kafka, "-P", "-t", topic, "-p", "1", lines="a\nb\n")
    assert kcat(kafka, "-G", group, "-c", "2", "-q", "-X", "auto.offset.reset=earliest", topic).split() == ["a", "b"]
