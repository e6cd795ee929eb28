"""A real node whose machine's clock goes back an hour for five seconds, and is right again."""

from __future__ import annotations

import time
from pathlib import Path

import httpx

from bench.node_process import NodeProcess
from tests.door.members import Member
from tests.waiting import wait_until

HOUR_MS = 3_600_000
LEASE_S = 6
PATIENCE_S = 60  # a busy machine is slow, an hour would be wrong

SETTABLE = """
import pathlib, time
from goqueue.base import clock
place = pathlib.Path({path!r})
now_ns = lambda self: time.time_ns() + int(place.read_text() or 0) * 1_000_000
clock.SystemClock.now_ns = now_ns
clock.SystemClock.now_ms = lambda self: now_ns(self) // 1_000_000
from goqueue.cli import main
main()
"""


class SettableNode(NodeProcess):
    """The program with a clock that a file sets."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.place = data_dir.with_name("clock")
        self.set_clock(0)
        self._command[2] = SETTABLE.format(path=str(self.place))

    def set_clock(self, by_ms: int) -> None:
        whole = self.place.with_name("clock.new")
        whole.write_text(str(by_ms))
        whole.rename(self.place)


def steps(client: httpx.Client) -> int:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) > 0 for line in lines if line.startswith("goqueue_broker_clock_steps_total"))


def wait_for_steps(client: httpx.Client, count: int) -> None:
    wait_until(lambda: steps(client) >= count, "nobody noticed")


def wait_for(member: Member, value: str, began: float) -> float:
    """After how many seconds it came."""
    while value not in member.poll("5s"):
        assert time.monotonic() - began < PATIENCE_S, f"{value} never came"
    return time.monotonic() - began


def test_leases_and_delays_outlive_a_clock_that_is_an_hour_behind_for_seconds(tmp_path: Path) -> None:
    with SettableNode(tmp_path / "data") as node, httpx.Client(base_url=node.url, timeout=90) as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        messages = [{"value": "now"}, {"value": "later", "delay": 10_000}]
        client.post("/topics/t/messages", json={"messages": messages}).raise_for_status()
        member = Member(
            node.url, "g", "t", mode="shared", auto_commit=False, session_timeout="5m", visibility_timeout=f"{LEASE_S}s"
        )
        began = time.monotonic()
        assert member.poll("5s") == ["now"]
        node.set_clock(-HOUR_MS)
        wait_for_steps(client, 1)
        assert wait_for(member, "now", began) >= LEASE_S - 0.1, "the lease ends although the clock is behind"
        node.set_clock(0)
        wait_for(member, "later", began)
        wait_for(member, "now", began)
        member.http.close()
        assert "the clock was set" in node.stderr
