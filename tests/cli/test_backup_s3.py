"""`goqueue backup s3://...` and a local S3 server: only what is new is sent, and what is wrong is one clear line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.cli.backup_s3 import S3Prefix
from goqueue.cli.backup_store import BackupStore, place_of
from goqueue.cli.failures import NoAnswer
from tests.cli.running import goqueue
from tests.cli.test_backup import SETTINGS, publish, restored, values_of
from tests.pipeline.buckets import needs_s3, s3_server
from tests.waiting import wait_until

pytestmark = needs_s3
TARGET = "s3://lake/backups/main"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its keys and bytes, below the target."""
    with s3_server(tmp_path, monkeypatch):
        yield boto3.resource("s3").Bucket("lake")


def back_up(server: str, *flags: str, target: str = TARGET) -> dict[str, Any]:
    done = goqueue("backup", target, "-o", "json", *flags, server=server)
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def keys(bucket: Any) -> set[str]:
    return {one.key for one in bucket.objects.all()}


def objects(bucket: Any) -> set[str]:
    return {key for key in keys(bucket) if "/objects/" in key}


def needed(name: str) -> set[str]:
    names = BackupStore(place_of(TARGET)).manifest(name).objects
    return {f"backups/main/objects/{one[:2]}/{one}" for one in names}


def error_of(*arguments: str, server: str = "http://127.0.0.1:1") -> str:
    """The only line on stderr of a command that fails."""
    done = goqueue(*arguments, server=server)
    assert done.exit_code != 0
    (line,) = done.stderr.splitlines()
    return line


def test_a_node_comes_back_from_a_bucket_and_later_backups_send_only_what_is_new(bucket: Any, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", settings=SETTINGS) as node, httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "jobs", "num_partitions": 2}).raise_for_status()
        for part in range(20):
            publish(client, "jobs", [f"{part}-{number}" + "." * 400 for number in range(50)])
        wait_until(lambda: len(list(tmp_path.glob("data/logs/jobs/*/*.seal"))) >= 6, "full segments are sealed")
        first = back_up(node.url)
        before, sent = values_of(client, "jobs"), keys(bucket)
        publish(client, "jobs", ["after the backup"])
        second = back_up(node.url)
        after = values_of(client, "jobs")
    assert first["copied_bytes"] == first["size_bytes"]
    assert second["copied_bytes"] < first["copied_bytes"] / 2
    assert sent < keys(bucket) and all(key.startswith("backups/main/") for key in keys(bucket))
    listed = json.loads(goqueue("backup", TARGET, "--list", "-o", "json").stdout)
    assert [one["name"] for one in listed] == [first["name"], second["name"]]
    with (
        restored(TARGET, tmp_path / "one", "--backup", first["name"]) as node,
        httpx.Client(base_url=node.url) as client,
    ):
        assert values_of(client, "jobs") == before
    with restored(TARGET, tmp_path / "two") as node, httpx.Client(base_url=node.url) as client:
        assert values_of(client, "jobs") == after


def test_older_backups_are_deleted_with_what_only_they_needed(bucket: Any, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", settings=SETTINGS) as node, httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "jobs"}).raise_for_status()
        publish(client, "jobs", ["one" + "." * 1_000])
        back_up(node.url)
        before = objects(bucket)
        client.delete("/topics/jobs").raise_for_status()
        others = {"somebody else's", "backups/main/objects/photos/cat.jpg", "backups/main/backups/db/x.json"}
        for key in others:
            bucket.put_object(Key=key, Body=b"x")
        both = back_up(node.url)
        added = objects(bucket) - before - others
        kept = back_up(node.url, "--keep", "1")
    assert {key for key in keys(bucket) - others if "/main/backups/" in key} == {
        f"backups/main/backups/{kept['name']}.json"
    }
    assert both["name"] != kept["name"] and others <= keys(bucket)
    assert before - objects(bucket) and added & objects(bucket)
    assert objects(bucket) - others == needed(kept["name"])
    assert goqueue("backup", TARGET, "--verify").exit_code == 0


def test_an_interrupted_backup_goes_on_and_sends_no_object_twice(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.cli.backup_copy._CHUNK", 1 << 20)
    sent: list[str] = []
    put = S3Prefix.put

    def put_and_note(self: S3Prefix, key: str, data: bytes, **condition: str) -> str:
        if key.startswith("objects/"):
            sent.append(key)
            if len(sent) == 5:
                raise NoAnswer("The network is away.")
        return put(self, key, data, **condition)

    monkeypatch.setattr(S3Prefix, "put", put_and_note)
    with NodeProcess(tmp_path / "data", settings=SETTINGS) as node, httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "jobs", "num_partitions": 1}).raise_for_status()
        for part in range(12):
            publish(client, "jobs", [f"{part}-{number}" + "x" * 9000 for number in range(100)])
        before = values_of(client, "jobs")
        assert error_of("backup", TARGET, server=node.url) == "error: The network is away."
        assert json.loads(goqueue("backup", TARGET, "--list", "-o", "json").stdout) == []
        assert "backups/main/lock" not in keys(bucket)
        back_up(node.url)
    assert len(sent) > 10 and not set(sent[:4]) & set(sent[5:])
    with restored(TARGET, tmp_path / "new") as node, httpx.Client(base_url=node.url) as client:
        assert values_of(client, "jobs") == before


def test_a_damaged_object_of_a_bucket_is_found(bucket: Any, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node, httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "jobs"}).raise_for_status()
        name = back_up(node.url)["name"]
    victim = next(key for key in sorted(keys(bucket)) if "/objects/" in key)
    bucket.put_object(Key=victim, Body=b"something else")
    found = goqueue("backup", TARGET, "--verify")
    assert found.exit_code == 1 and f"The backup {name} is damaged" in found.stderr
    assert goqueue("restore", TARGET, "--data", str(tmp_path / "new")).exit_code == 1


def test_two_backups_at_once_are_refused_and_a_lock_that_was_left_is_taken_over(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put_object(Key="backups/main/lock", Body=b"somebody")
    with NodeProcess(tmp_path / "data") as node:
        assert error_of("backup", TARGET, server=node.url) == (
            f"error: Another backup writes to {TARGET}; wait until it ends."
        )
        monkeypatch.setattr("goqueue.cli.backup_lock._LOCK_S_MAX", -1)
        back_up(node.url)
    assert "backups/main/lock" not in keys(bucket)


def test_a_missing_bucket_is_one_clear_line(bucket: Any) -> None:
    assert error_of("backup", "s3://nowhere/main") == (
        "error: There is no bucket 'nowhere'. Create it first, or correct s3://nowhere/main."
    )
    assert error_of("restore", "s3://nowhere/main", "--data", "new").startswith("error: There is no bucket 'nowhere'")
    assert error_of("restore", "s3://lake/empty", "--data", "new") == "error: There is no backup in s3://lake/empty."
    assert "names no bucket" in error_of("backup", "s3:///main")


def test_a_wrong_key_is_one_clear_line(bucket: Any) -> None:
    httpx.post(f"{os.environ['AWS_ENDPOINT_URL']}/moto-api/reset-auth", content="0").raise_for_status()  # checks keys
    line = error_of("backup", TARGET)
    assert line.startswith(f"error: The storage refuses the key for {TARGET}: ") and "InvalidAccessKeyId" in line


def test_no_key_and_no_server_are_one_clear_line(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert error_of("backup", TARGET).startswith(f"error: {TARGET} cannot be reached: ")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert error_of("backup", TARGET) == (
        f"error: There is no key for {TARGET}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
    )
