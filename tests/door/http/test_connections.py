"""Connections: so many, so many of one address, and so many requests behind one another."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.http.raw import Line, counted
from tests.waiting import wait_until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POLL = b"GET /topics/t/messages?from=latest&timeout=30s HTTP/1.1\r\nHost: localhost\r\n\r\n"
LIMITS = {"connections": "CONNECTIONS_MAX", "connections-per-address": "CONNECTIONS_PER_ADDRESS_MAX"}


@pytest.mark.parametrize("limit", LIMITS)
def test_an_idle_connection_makes_room_for_a_new_one(tmp_path: Path, limit: str) -> None:
    with NodeProcess(tmp_path / "data", settings={f"GOQUEUE_REST_{LIMITS[limit]}": "4"}) as node:
        with ExitStack() as stack:
            lines = [stack.enter_context(Line(node.url)) for _ in range(8)]
            for line in lines[:4]:
                assert line.read_to_end() == b"", "the first four, which said nothing, were closed"
            assert lines[7].send(HEALTH).answer()[0] == 200
        counted(node, "rest", "idle-closed-for-room", 4)


@pytest.mark.parametrize("limit", LIMITS)
def test_without_an_idle_one_the_new_connection_is_told(tmp_path: Path, limit: str) -> None:
    with NodeProcess(tmp_path / "data", settings={f"GOQUEUE_REST_{LIMITS[limit]}": "4"}) as node:
        httpx.post(f"{node.url}/topics", json={"name": "t"}).raise_for_status()
        with ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(Line(node.url)).send(POLL)
            found: list[tuple[int, str]] = []

            def is_refused() -> bool:
                with Line(node.url) as line:
                    found.append(line.problem() if b"503" in line.send(HEALTH).read() else (200, ""))
                return found[-1] == (503, "overloaded")

            wait_until(is_refused)
        wait_until(lambda: httpx.get(f"{node.url}/healthz").status_code == 200)
        counted(node, "rest", limit)


def test_some_requests_may_wait_behind_another_and_are_answered_in_order(node: NodeProcess) -> None:
    with Line(node.url) as line:
        paths = [b"/healthz", b"/version", b"/nowhere", b"/stats"] * 8
        line.send(b"".join(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in paths))
        assert [line.answer()[0] for _ in paths] == [200, 200, 404, 200] * 8


def test_thousands_of_requests_behind_one_another_are_not(node: NodeProcess) -> None:
    with Line(node.url) as line:
        line.send(HEALTH * 9_000)
        assert line.read_to_end().count(b"200 OK") < 9_000
    counted(node, "rest", "pipelined-requests")
    assert httpx.get(f"{node.url}/healthz").status_code == 200
