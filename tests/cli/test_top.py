"""`goqueue top`: rates from two looks, keys, and the whole of it in a real terminal."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from goqueue.api.cluster import ClusterShard, ReplicationLag
from goqueue.cli.keyboard import keys_of
from goqueue.cli.top_rows import VIEWS, group_rows, shard_rows, topic_rows
from goqueue.cli.top_sample import TopSample, parse_metrics, put_together
from goqueue.cli.top_screen import TopScreen
from goqueue.client import Client
from tests.cli.running import goqueue
from tests.cli.terminal import terminal

LATER = """\
# HELP goqueue_broker_high_watermark Where readers end.
goqueue_broker_high_watermark{partition="0",topic="a"} 130.0
goqueue_broker_high_watermark{partition="1",topic="a"} 20.0
goqueue_broker_high_watermark{partition="0",topic="b\\"\\n"} 5.0
goqueue_broker_start_offset{partition="0",topic="a"} 10.0
goqueue_broker_bytes_published_total{topic="a"} 2048.0
goqueue_consumer_lag{group="g",partition="0",topic="a"} 7.0
goqueue_consumer_lag{group="g",partition="1",topic="a"} 1.0
goqueue_consumer_lag_seconds{group="g",partition="0",topic="a"} 65.0
goqueue_consumer_committed_offset{group="g",partition="0",topic="a"} 123.0
goqueue_something_else 5.0
"""
EARLIER = LATER.replace("130.0", "110.0").replace("2048.0", "0.0").replace("123.0", "103.0")


def sample(at: float, *texts: str) -> TopSample:
    shard = ClusterShard(3, "ok", 1, 0, [1, 0], [1, 0], [], 1, 4, {0: ReplicationLag(9, 5)})
    return TopSample(at, put_together(map(parse_metrics, texts)), [shard], 1, 0)


def test_rates_are_what_grew_between_two_looks() -> None:
    now, before = sample(12.0, LATER), sample(10.0, EARLIER)
    assert topic_rows(now, before) == [("a", 10.0, 1024.0, 0.0, 140.0, 0.0), ('b"\n', 0.0, 0.0, 0.0, 5.0, 0.0)]
    assert group_rows(now, before) == [("g", "a", 8.0, 65.0, 10.0)]
    assert shard_rows(now, before) == [("  3", "ok", "node 1", "1,0", "1,0", 4.0, 9.0)]


def test_a_restart_and_a_new_topic_are_no_rates() -> None:
    assert topic_rows(sample(12.0, EARLIER), sample(10.0, LATER))[0][1] == 0.0
    assert topic_rows(sample(12.0, LATER), sample(10.0, ""))[0][1] == 0.0
    assert topic_rows(sample(10.0, LATER), sample(10.0, EARLIER))[0][1] == 0.0


def test_what_replicas_tell_counts_once_and_what_nodes_did_adds_up() -> None:
    rows = topic_rows(sample(12.0, LATER, LATER), sample(10.0, EARLIER, EARLIER))
    assert rows[0][1:5] == (10.0, 2048.0, 0.0, 140.0)


def test_keys_that_mean_nothing_are_dropped_whole() -> None:
    assert keys_of("a\x1b[Aq\x1b[15~\x1b[1;5C\r\t\x7fé/") == ["a", "up", "q", "enter", "tab", "backspace", "é", "/"]
    assert keys_of("\x1b") == ["escape"] and keys_of("\x1b[") == []


def test_what_keys_do() -> None:
    now, before = sample(12.0, LATER), sample(10.0, EARLIER)
    screen = TopScreen()
    screen.take(now, before)
    assert [row[0] for row in screen.rows] == ["a", 'b"\n']
    for key in ("down", "down", "down"):
        screen.press(key)
    assert screen.selected == 1
    screen.press("r")
    screen.take(now, before)
    assert [row[0] for row in screen.rows] == ['b"\n', "a"]
    for key in ("/", "B", "q", "backspace", "enter"):
        screen.press(key)
    screen.take(now, before)
    assert screen.wanted == "B" and not screen.is_over and [row[0] for row in screen.rows] == ['b"\n']
    for _ in range(len(VIEWS[0].columns)):
        screen.press("s")
    assert screen.sort == VIEWS[0].sort
    screen.press("left")
    assert screen.page.title == "shards" and screen.sort == VIEWS[-1].sort
    screen.press("2")
    assert screen.page.title == "groups"
    screen.press("p")
    screen.press("q")
    assert screen.is_paused and screen.is_over


@pytest.fixture
def queue(server_url: str) -> str:
    name = f"top-{uuid.uuid4().hex[:8]}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        client.publish_many(name, ["x"] * 40)
        with client.consumer(name, [name], mode="shared") as consumer:
            consumer.ack(*consumer.poll(10, 5))
    return name


def test_it_needs_a_terminal_or_once(server_url: str, queue: str) -> None:
    refused = goqueue("top", server=server_url)
    assert refused.exit_code == 2 and "needs a terminal; with --once" in refused.stderr
    shown = goqueue("top", "--once", "--interval", "0.2", "--page", "queues", "--filter", queue, server=server_url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "READY▼" in shown.stdout and " 30 " in shown.stdout
    wrong = goqueue("top", "--page", "nonsense", server=server_url)
    assert wrong.exit_code == 2 and "'topics', 'groups', 'queues', 'lanes', 'shards'" in wrong.stderr


def test_in_a_real_terminal(server_url: str, queue: str, tmp_path: Path) -> None:
    with terminal(tmp_path, ["top", "--interval", "0.3"], {"GOQUEUE_SERVER": server_url}) as shown:
        seen = shown.wait_for("goqueue top", "1 topics", "BYTES IN", "q end")
        assert "__consumer_offsets" not in seen
        shown.type("/", queue, "Enter")
        seen = shown.wait_for(f"filter '{queue}'", "1 of 1")
        assert queue in seen
        with Client(server_url) as client:
            client.publish_many(queue, ["y"] * 100)
        shown.wait_for(" 140 ")
        shown.type("Right", "Right")
        shown.wait_for("RETRYING", " 130 ")
        shown.type("Right")
        shown.wait_for("LANE", "normal")
        shown.type("p")
        shown.wait_for("PAUSED")
        shown.type("Escape", "Right")
        shown.wait_for("SHARD", "CONDITION", "node 0")
        shown.type("Down", "s", "r")
        shown.wait_for("2 of ", "▲")
        shown.type("q")
        shown.wait_for("ended with 0", gone="goqueue top")
