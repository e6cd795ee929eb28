"""Answers: what nobody reads is bounded for one and for all, and who does not read is cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.base.limits import MIB
from tests.door.http.raw import Line, counted, refused
from tests.waiting import wait_until

READ = b"GET /topics/big/messages?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
TAIL = b"GET /topics/big/tail?from=earliest HTTP/1.1\r\nHost: localhost\r\n\r\n"


def fill(node: NodeProcess, megabytes: int = 8) -> None:
    httpx.post(f"{node.url}/topics", json={"name": "big", "num_partitions": 1}).raise_for_status()
    for _ in range(megabytes):
        body = {"messages": [{"value": "x" * 100_000}] * 10}
        httpx.post(f"{node.url}/topics/big/messages", json=body, timeout=60).raise_for_status()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    settings = {"GOQUEUE_REST_ANSWER_STALL_MS": "300ms", "GOQUEUE_REST_HEAD_MS": "300ms"}
    with NodeProcess(tmp_path_factory.mktemp("hasty") / "data", settings=settings) as running:
        fill(running)
        yield running


@pytest.mark.parametrize("request_bytes", [READ, TAIL], ids=["page", "tail"])
def test_who_does_not_read_is_cut_off(hasty: NodeProcess, request_bytes: bytes) -> None:
    before = refused(hasty, "rest", "answer-time")
    with Line(hasty.url, receive_buffer=4096) as line:
        line.send(request_bytes)
        counted(hasty, "rest", "answer-time", before + 1)
        assert len(line.read_to_end()) < 7 * MIB, "the rest was dropped"
    wait_until(lambda: "goqueue_rest_tails 0.0" in httpx.get(f"{hasty.url}/metrics").text)


def test_who_reads_slowly_but_steadily_gets_it_all(tmp_path: Path) -> None:
    settings = {"GOQUEUE_REST_ANSWER_STALL_MS": "2s"}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        fill(node, 2)
        with Line(node.url, receive_buffer=4096) as line:
            line.send(READ)
            assert len(line.answer()[2]) > 2_000_000


def test_unread_answers_of_all_are_bounded_and_the_slowest_make_room(tmp_path: Path) -> None:
    """Without it each of these clients holds eight megabytes."""
    with NodeProcess(tmp_path / "data", settings={"GOQUEUE_REST_ANSWER_BYTES_TOTAL_MAX": "32MiB"}) as node:
        fill(node)
        rss_before = node.rss_bytes()
        with ExitStack() as stack:
            for _ in range(40):
                stack.enter_context(Line(node.url, receive_buffer=4096)).send(READ)
            counted(node, "rest", "answer-bytes-total")
            wait_until(lambda: unread(node) <= 32 * MIB)
            answer = read_all(node)
            while answer.status_code == 503:  # those that just began to be slow are not cut off yet
                answer = read_all(node)
            assert answer.status_code == 200 and len(answer.json()["messages"]) == 80
        assert node.rss_bytes() - rss_before < 300 * MIB


def test_an_answer_larger_than_one_connection_may_hold_is_cut_off(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", settings={"GOQUEUE_REST_ANSWER_BYTES_MAX": "1MiB"}) as node:
        fill(node)
        with Line(node.url, receive_buffer=4096) as line:
            line.send(READ)
            assert len(line.read_to_end()) < 7 * MIB
        counted(node, "rest", "answer-bytes")


def test_a_tail_with_a_request_behind_it_ends_when_its_reader_goes(node: NodeProcess) -> None:
    fill(node, 1)
    with Line(node.url) as line:
        line.send(TAIL.replace(b"earliest", b"latest") + READ)
        assert b"200 OK" in line.read()
    wait_until(lambda: "goqueue_rest_tails 0.0" in httpx.get(f"{node.url}/metrics").text)


@pytest.mark.parametrize("path", [b"/topics/big/messages?from=latest&timeout=30s"])
def test_a_long_poll_ends_when_its_reader_goes(node: NodeProcess, path: bytes) -> None:
    fill(node, 1)
    with Line(node.url) as line:
        line.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        wait_until(lambda: "goqueue_broker_long_polls 1.0" in httpx.get(f"{node.url}/metrics").text)
    wait_until(lambda: "goqueue_broker_long_polls 0.0" in httpx.get(f"{node.url}/metrics").text)
    assert 'status="499"' in httpx.get(f"{node.url}/metrics").text, "it did not wait for its time to be over"


def read_all(node: NodeProcess) -> httpx.Response:
    return httpx.get(f"{node.url}/topics/big/messages", params={"limit": 10_000}, timeout=60)


def unread(node: NodeProcess) -> float:
    found = re.search(r'goqueue_http_unread_bytes{door="rest"} (\S+)', httpx.get(f"{node.url}/metrics").text)
    return float(found[1]) if found else 0.0
