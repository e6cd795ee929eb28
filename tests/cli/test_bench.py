"""`goqueue bench`: open-loop timing, and that every message is accounted for."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from goqueue.cli import bench_compare
from goqueue.cli.bench import BenchLoad, _faults
from goqueue.cli.bench_compare import checkout
from goqueue.cli.bench_load import Arrivals, OpenLoop, make_payload, read_payload, summarise
from goqueue.cli.failures import Failed
from goqueue.client import Client
from tests.cli.running import goqueue


def test_a_stall_is_charged_to_all_that_should_have_left_meanwhile() -> None:
    """One at a time, and the first takes long: those behind it are late by the clock, though each is quick itself."""
    room = asyncio.Lock()

    async def send(number: int, due_ns: int) -> None:
        async with room:
            await asyncio.sleep(0.3 if number == 0 else 0)

    async def run() -> OpenLoop:
        loop = OpenLoop(100, 20, send)
        await loop.run()
        return loop

    found = asyncio.run(run())
    assert len(found.latencies) == 20 and not found.failures
    assert sum(one > 0.1 for one in found.latencies) >= 15, "not the first alone"
    assert summarise(found.latencies).p50 > 100


def test_failures_are_counted_and_not_timed() -> None:
    async def send(number: int, due_ns: int) -> None:
        if number % 2:
            raise ConnectionError("refused")

    async def run() -> OpenLoop:
        loop = OpenLoop(10_000, 10, send)
        await loop.run()
        return loop

    found = asyncio.run(run())
    assert (len(found.latencies), found.failures) == (5, ["refused"] * 5)


def test_percentiles_are_latencies_that_were_measured() -> None:
    found = summarise([number / 1000 for number in range(1, 1001)])
    assert (found.p50, found.p90, found.p99, found.p999, found.max) == (500, 900, 990, 999, 1000)
    assert summarise([]).max == 0.0 and summarise([0.002]).p50 == 2.0


def test_messages_say_which_they_are_and_whether_they_are_whole() -> None:
    for size in (20, 21, 100, 1_000):
        data = make_payload(7, 8, size)
        assert len(data) == size and read_payload(data) == (7, 8)
        assert read_payload(data[:-1] + bytes([data[-1] ^ 1])) is None
    assert read_payload(b"short") is None


def test_what_is_missing_doubled_or_damaged_is_wrong() -> None:
    async def run() -> tuple[list[str], bool]:
        came = Arrivals(4)
        for number in (0, 1, 1):
            came.note(make_payload(number, time.monotonic_ns(), 30))
        came.note(b"x" * 30)
        came.note(make_payload(9, 0, 30))
        load = BenchLoad("consume", "rest", 1, 1, 30, 1, 1)
        return _faults(load, OpenLoop(1, 1, lambda number, due: asyncio.sleep(0)), came), came.complete.is_set()

    faults, is_complete = asyncio.run(run())
    assert faults == ["2 messages came damaged", "1 message came twice", "2 messages did not come"]
    assert not is_complete


@pytest.mark.parametrize(
    ("kind", "flags", "lines"),
    [
        ("produce", ["--batch", "5"], ["acknowledged"]),
        ("consume", [], ["acknowledged", "read"]),
        ("consume", ["--over", "kafka", "--batch", "10"], ["acknowledged", "read"]),
        ("queue", [], ["acknowledged", "acked by a worker"]),
        ("queue", ["--over", "grpc"], ["acknowledged", "acked by a worker"]),
    ],
)
def test_every_kind_through_a_node(server_url: str, kind: str, flags: list[str], lines: list[str]) -> None:
    done = goqueue("bench", kind, "--rate", "40", "--duration", "1s", *flags, "-o", "json", server=server_url)
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [one["what"] for one in found] == lines
    assert found[-1]["latency_ms"]["count"] == (40 if kind != "produce" else 8)
    with Client(server_url) as client:
        assert not [one.name for one in client.topics() if one.name.startswith("bench-")]


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (["nonsense"], "No such command 'nonsense'", 2),
        (["produce", "--rate", "0"], "--rate", 2),
        (["produce", "--duration", "soon"], "write it like", 2),
        (["produce", "--size", "3"], "--size", 2),
        (["produce", "--rate", "1000000", "--duration", "1h"], "lower rate or a shorter duration", 2),
        (["queue", "--over", "kafka"], "'kafka' is not one of 'rest', 'grpc'", 2),
        (["produce"], "Cannot reach", 3),
    ],
)
def test_mistakes(arguments: list[str], told: str, code: int) -> None:
    done = goqueue("bench", *arguments)
    assert done.exit_code == code and told in " ".join(done.stderr.split())


def test_comparing_runs_the_benchmarks_of_the_checkout(capfd: pytest.CaptureFixture[str]) -> None:
    done = goqueue("bench", "compare", "--quick", "--system", "goqueue", "--scenario", "nonsense")
    assert done.exit_code == 2
    assert "invalid choice: 'nonsense' (choose from 'log-100'" in capfd.readouterr().err


def test_comparing_goes_on_with_a_run_that_was_interrupted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    of_another = {"python": "2.7", "cores": 1, "system": "", "java": ""}
    before = {"made": "yesterday", "effort": "quick", "machine": of_another, "outcomes": []}
    (tmp_path / "found.json").write_text(json.dumps(before))
    done = goqueue("bench", "compare", "--quick", "--resume", "--json", str(tmp_path / "found.json"))
    assert done.exit_code == 1
    assert "is of another machine, or of the quick form; name another file." in capfd.readouterr().err
    done = goqueue("bench", "compare", "--resume")
    assert done.exit_code == 2 and "--resume needs --json" in done.stderr


def test_comparing_says_what_to_do_where_there_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(Failed) as no_checkout:
        checkout(tmp_path / "site-packages/goqueue/__init__.py")
    assert "run `make compare` there" in no_checkout.value.message


def test_comparing_says_which_packages_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_compare, "_PACKAGES", ("no_such_package", "json"))
    done = goqueue("bench", "compare", "--quick")
    assert done.exit_code == 1
    assert "needs no_such_package: run `make compare`, or `pip install -e '.[bench]'`" in done.stderr
