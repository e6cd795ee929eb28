"""Starting and stopping: what a person sees, and what is refused."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from bench.startup import SHARDS, fill


def run_serve(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
    command = [sys.executable, "-c", "from goqueue.cli import main; main()", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env={**mine, **environ})


def test_the_start_block_says_what_a_person_wants_to_know(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data")
    with node:
        assert "GoQueue 0." in node.block and str(tmp_path / "data") in node.block
        assert "0 topics" in node.block and node.url in node.block
        httpx.post(f"{node.url}/topics", json={"name": "t"}).raise_for_status()
        messages = [{"value": "v"}] * 5
        httpx.post(f"{node.url}/topics/t/messages", json={"messages": messages}).raise_for_status()
    with node:
        assert "1 topics, 3 partitions, 5 messages" in node.block and "(clean)" in node.block
    node.start()
    httpx.post(f"{node.url}/topics/t/messages", json={"messages": messages}).raise_for_status()
    node.kill()
    with node:
        assert "after a crash" in node.block


def test_a_second_node_on_the_same_directory_is_refused(node: NodeProcess) -> None:
    done = run_serve("--data", str(node.data_dir), "--rest", "127.0.0.1:0")
    assert done.returncode == 1
    assert "data-dir-in-use" in done.stderr and str(node.pid) in done.stderr
    assert httpx.get(f"{node.url}/healthz").status_code == 200


def test_a_port_in_use_is_refused_and_nothing_is_left_locked(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_serve("--data", str(tmp_path / "d"), "--rest", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert "address-unusable" in done.stderr and str(port) in done.stderr and "rest.listen" in done.stderr
    with NodeProcess(tmp_path / "d"):
        pass


@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_an_unusable_directory_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    done = run_serve("--data", str(tmp_path / place), "--rest", "127.0.0.1:0")
    assert done.returncode == 1
    assert "data-dir-unusable" in done.stderr and "--data" in done.stderr
    assert "Traceback" not in done.stderr


def test_all_mistakes_in_the_settings_are_listed_at_once(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text('[log]\nfsync = "sometimes"\nfsink = 3\n[topics]\npartitions = 0\n[rest]\nlisten = "nowhere"\n')
    done = run_serve("--config", str(file), "--data", str(tmp_path / "d"), GOQUEUE_LOG_FSYNC_INTERVAL_MS="soon")
    assert done.returncode == 1
    for word in ("log.fsync", "log.fsink", "did you mean", "topics.partitions", "GOQUEUE_LOG_FSYNC_INTERVAL_MS"):
        assert word in done.stderr
    assert not (tmp_path / "d").exists()


def test_flags_win_over_variables_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "goqueue.toml"
    file.write_text('[topics]\npartitions = 7\nretention_ms = "1h"\n[log]\nfsync = "never"\n')
    settings = {"GOQUEUE_TOPICS_PARTITIONS": "5", "GOQUEUE_LOG_FSYNC": "interval"}
    flags = ("--config", str(file), "--fsync", "always")
    with NodeProcess(tmp_path / "d", *flags, settings=settings) as node:
        made = httpx.post(f"{node.url}/topics", json={"name": "t"}).json()
        assert (made["num_partitions"], made["config"]["retention.ms"]) == (5, "3600000")
        assert "fsync always" in node.block


def test_sigterm_answers_what_is_under_way_and_keeps_it(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", "--fsync", "never").start()
    with httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        for number in range(50):
            client.post("/topics/t/messages", json={"messages": [{"value": f"{number}"}]}).raise_for_status()
    assert node.stop() == 0
    with node:
        page = httpx.get(f"{node.url}/topics/t/messages", params={"limit": 1000}).json()
        assert [one["value"] for one in page["messages"]] == [str(number) for number in range(50)]
        assert "(clean)" in node.block


def test_logs_are_json_when_nobody_watches(tmp_path: Path) -> None:
    (tmp_path / "data" / "logs").mkdir(parents=True)
    (tmp_path / "data" / "logs" / "stranger").write_text("foreign")
    with NodeProcess(tmp_path / "data") as node:
        assert '"level":"warning"' in node.stderr and '"path":"logs/stranger"' in node.stderr


def test_many_partitions_are_opened_quickly_after_a_kill_and_after_a_stop(tmp_path: Path) -> None:
    """The long form is `python -m bench opening`. Processor time, so that a busy machine does not decide."""
    with NodeProcess(tmp_path / "empty") as empty:
        idle_s = empty.cpu_seconds()
    fill(tmp_path / "data", topics=100, partitions=5)
    node = NodeProcess(tmp_path / "data", "--shards", str(SHARDS))
    for end in ("kill", "stop", "stop"):
        node.start()
        assert "100 topics, 500 partitions, " in node.block
        assert node.cpu_seconds() - idle_s < 3.0, "six milliseconds for each partition: ten times what it takes"
        node.kill() if end == "kill" else node.stop()
