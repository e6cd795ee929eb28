"""What becomes of tasks when workers and nodes die, stop, or take long."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from py_compile import compile as compile_source

from bench.node_process import NodeProcess
from goqueue.client import Client
from tests.client.brokers import dead_letters
from tests.long import LONG
from tests.waiting import wait_until
from tests.worker.workers import Program

# A handler of three minutes under a lease of thirty seconds, and the same in less time.
TAKES_S, LEASE = (180, "30s") if LONG else (6, "1s")
LONG_TASK = f"""
    @app.task
    def long(number):
        note(f"begin {{number}} {{current().attempt}}")
        sleep({TAKES_S})
        note(f"end {{number}}")

    @app.task
    async def long_async(number):
        note(f"begin {{number}} {{current().attempt}}")
        await asyncio.sleep({TAKES_S})
        note(f"end {{number}}")
"""


def test_a_handler_that_takes_many_leases_is_not_given_to_another(server_url: str, tmp_path: Path) -> None:
    program = Program(tmp_path, server_url, LONG_TASK, lease=LEASE)
    with program.worker(), program.worker():
        results = [program.long.delay(1), program.long_async.delay(2)]
        assert [one.get(TAKES_S + 60) for one in results] == [None, None]
    assert sorted(program.notes) == ["begin 1 1", "begin 2 1", "end 1", "end 2"]


def test_a_task_whose_worker_dies_comes_again_after_its_lease(server_url: str, tmp_path: Path) -> None:
    code = """
        @app.task(retries=1)
        def die_once():
            note(f"{current().attempt} {current().failures} {time.time()}")
            if current().failures == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return "alive"
    """
    program = Program(tmp_path, server_url, code, lease="2s")
    with program.worker() as first, program.worker() as second:
        assert program.die_once.delay().get(60) == "alive"
        wait_until(lambda: first.has_ended or second.has_ended)
    begin, again = (line.split() for line in program.notes)
    assert (begin[:2], again[:2]) == (["1", "0"], ["2", "1"])
    assert float(again[2]) - float(begin[2]) > 1.5


def test_a_task_that_kills_every_worker_is_a_dead_letter_in_the_end(server_url: str, tmp_path: Path) -> None:
    code = """
        @app.task(retries=1)
        def poison():
            note("drunk")
            os.kill(os.getpid(), signal.SIGKILL)

        @app.task
        def good():
            return "good"
    """
    program = Program(tmp_path, server_url, code, lease="1s")
    program.poison.delay()
    for _ in range(2):
        worker = program.worker().start()
        wait_until(lambda: worker.has_ended)  # noqa: B023
    with program.worker(), Client(server_url) as client:
        topic = program.app.topics.queue("default")
        wait_until(lambda: dead_letters(client, topic))
        assert program.good.delay().get(30) == "good"
    assert program.notes == ["drunk", "drunk"]


STOPPED = """
    @app.task(results=False)
    def work(number):
        note(f"begin {number}")
        sleep(0.01)
        note(f"end {number}")

    @app.task(results=False)
    async def work_async(number):
        note(f"begin {number}")
        await asyncio.sleep(0.01)
        note(f"end {number}")
"""


def test_workers_that_are_stopped_lose_nothing_and_do_nothing_twice(server_url: str, tmp_path: Path) -> None:
    program = Program(tmp_path, server_url, STOPPED)
    program.work.send(range(600))
    program.work_async.send(range(600, 1200))
    for share in (100, 400, 800):
        worker = program.worker("--concurrency", "4").start()
        wait_until(lambda: len(program.notes) >= share)  # noqa: B023
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        assert Counter(one.split()[0] for one in program.notes)["begin"] == len(program.notes) / 2, "what began, ended"
        assert len(program.notes) < 2400, "it was stopped in the middle"
    with program.worker("--concurrency", "4"):
        wait_until(lambda: len(program.notes) >= 2400)
    ends = Counter(one for one in program.notes if one.startswith("end"))
    assert len(ends) == 1200
    assert set(ends.values()) == {1}


def test_a_second_signal_gives_back_what_runs(server_url: str, tmp_path: Path) -> None:
    code = """
        @app.task(results=False)
        async def endless():
            note(f"begin {current().attempt} {current().failures}")
            await asyncio.sleep(0 if current().attempt > 1 else 1000)
            note("end")
    """
    program = Program(tmp_path, server_url, code, lease="60s")
    program.endless.delay()
    worker = program.worker().start()
    wait_until(lambda: program.notes)
    worker.signal(signal.SIGTERM)
    wait_until(lambda: "stopping" in worker.output)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    with program.worker():
        wait_until(lambda: "end" in program.notes)
    assert program.notes == ["begin 1 0", "begin 2 0", "end"], "given back at once, and no failure"


def test_a_node_that_is_killed_costs_no_task_and_doubles_none(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        port = node.url.rpartition(":")[2]
        program = Program(tmp_path, node.url, STOPPED, lease="30s")
        program.work.send(range(300))
        program.work_async.send(range(300, 600))
        with program.worker("--concurrency", "4"):
            wait_until(lambda: len(program.notes) >= 200)
            node.kill()
            with NodeProcess(tmp_path / "data", "--rest", f"127.0.0.1:{port}"):
                wait_until(lambda: len({one for one in program.notes if one.startswith("end")}) == 600)
    ends = Counter(one for one in program.notes if one.startswith("end"))
    assert set(ends.values()) == {1}


def test_what_runs_while_a_node_starts_again_is_not_given_to_another(tmp_path: Path) -> None:
    code = """
        @app.task
        def hold():
            note("begin held")
            while not (FOLDER / "free").exists():
                sleep(0.05)
            note("end held")

        @app.task
        async def hold_async(number):
            note(f"begin {number}")
            while not (FOLDER / f"free-{number}").exists():
                await asyncio.sleep(0.05)
            note(f"end {number}")
    """
    with NodeProcess(tmp_path / "data") as node:
        port = node.url.rpartition(":")[2]
        program = Program(tmp_path, node.url, code, lease="30s")
        program.hold.delay()
        program.hold_async.delay(1)
        with program.worker("--concurrency", "2"):  # has no room, and polls when one of them is done
            wait_until(lambda: len(program.notes) == 2)
            node.kill()
            with NodeProcess(tmp_path / "data", "--rest", f"127.0.0.1:{port}"):
                for number in (1, 2, 3):
                    (tmp_path / f"free-{number}").touch()
                    wait_until(partial(program.has_noted, f"end {number}"))
                    program.hold_async.delay(number + 1)
                wait_until(lambda: "begin 4" in program.notes)
                (tmp_path / "free").touch()
                (tmp_path / "free-4").touch()
                wait_until(lambda: {"end held", "end 4"} <= set(program.notes))
    numbers = ["held", *map(str, range(1, 5))]
    assert sorted(program.notes) == sorted(f"{what} {number}" for what in ("begin", "end") for number in numbers)


def test_a_worker_starts_again_when_a_file_changes(server_url: str, tmp_path: Path) -> None:
    code = """
        @app.task
        def answer():
            return 1
    """
    program = Program(tmp_path, server_url, code)
    file = tmp_path / f"{program.module}.py"
    with program.worker("--reload") as worker:
        assert program.answer.delay().get(30) == 1
        written_ns = file.stat().st_mtime_ns
        compile_source(str(file))  # as whoever imports it does
        file.write_text(re.sub("return 1", "return 2", file.read_text()))
        os.utime(file, ns=(written_ns + 1, written_ns + 1))  # of the same size and second
        wait_until(lambda: worker.output.count("Ready") == 2)
        assert program.answer.delay().get(30) == 2
