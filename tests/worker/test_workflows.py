"""Chains, groups, chords, cron lines and unique calls through a node and workers, also ones that are killed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.client.dead_letters import redrive
from goqueue.worker import TaskFailed, chain, chord, group
from goqueue.worker.calls import decode_call
from tests.long import LONG
from tests.waiting import let_pass, wait_until
from tests.worker.workers import Program, WorkerProcess

CODE = """
    @app.task
    def add(a, b):
        return a + b

    @app.task
    async def total(numbers, *more):
        return sum(numbers) + sum(more)

    @app.task(retries=0)
    def fails_unless_mended(_=None):
        if not (FOLDER / "mended").exists():
            raise ValueError("not mended")
        return 100

    @app.task(unique="1h", name="once")
    def once(key):
        note(f"once {key}")
        return current().id

    @app.task(unique="1h", unique_by=["user"], name="welcome")
    def welcome(user, text):
        return text
"""


@pytest.fixture(scope="module")
def program(server: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("program"), server.url, CODE)


@pytest.fixture(scope="module")
def working(program: Program) -> Iterator[WorkerProcess]:
    with program.worker("--concurrency", "4") as worker:
        yield worker


def test_chains_groups_and_chords(program: Program, working: WorkerProcess) -> None:
    add, total = program.add, program.total
    chained = chain(add.s(1, 2), add.s(10), add.si(5, 5), add.s(1)).send()
    grouped = group(add.s(n, n) for n in range(20)).send()
    chorded = chord([add.s(n, n) for n in range(20)], total.s(1000)).send()
    nested = chain(add.s(1, 1), group(add.s(1), add.s(2)), total.s(), add.s(100)).send()
    assert (chained.get(60), chorded.get(60), nested.get(60)) == (11, 1380, 107)
    assert grouped.get(60) == [2 * n for n in range(20)]
    assert chord([add.s(1, 1)], total.s()).send().get(60) == 2


@pytest.mark.asyncio
async def test_workflows_are_sent_from_asyncio(program: Program, working: WorkerProcess) -> None:
    assert await (await chain(program.add.s(1, 2), program.add.s(10)).asend()).aget(60) == 13
    assert await (await group(program.add.s(1, 2)).asend()).aget(60) == [3]


def test_a_chord_that_failed_is_told_and_a_redriven_member_completes_it(
    program: Program, working: WorkerProcess
) -> None:
    result = chord([program.add.s(1, 1), program.fails_unless_mended.s()], program.total.s()).send()
    with pytest.raises(TaskFailed, match="total did not run, since a member failed: not mended"):
        result.get(60)
    (program.folder / "mended").touch()
    with Client(program.app.url) as client:
        client.perform(redrive(program.app.topics.queue("default"), {}))

    def mended() -> bool:
        try:
            return bool(result.get(60) == 102)
        except TaskFailed:
            return False

    wait_until(mended)


def test_who_waits_behind_a_failed_step_is_told(program: Program, working: WorkerProcess) -> None:
    (program.folder / "mended").unlink(missing_ok=True)
    with pytest.raises(TaskFailed, match=r"add did not run, since .*fails_unless_mended failed: not mended"):
        chain(program.fails_unless_mended.s(), program.add.s(1), program.add.s(2)).send().get(60)


def test_a_unique_call_is_made_once_whoever_makes_it(program: Program, working: WorkerProcess) -> None:
    other = Program(program.folder, program.app.url, CODE, name=program.app.name)
    tasks = [program.once, other.once]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: tasks[n % 2].delay(f"key {n // 6}"), range(12)))
    ids = [one.id for one in results]
    assert (len(set(ids[:6])), len(set(ids[6:])), len(set(ids))) == (1, 1, 2)
    assert [one.get(60) for one in results] == ids
    assert sorted(one for one in program.notes if one.startswith("once")) == ["once key 0", "once key 1"]
    assert program.welcome.delay(1, "hello").id == program.welcome.delay(1, text="bye").id


def test_each_tick_is_once_though_several_workers_run(server_url: str, tmp_path: Path) -> None:
    code = """
        @app.cron("* * * * * *")
        def tick():
            note(current().id)
    """
    program = Program(tmp_path, server_url, code)
    began = datetime.now(UTC)
    with program.worker(), program.worker(), program.worker():
        wait_until(lambda: len(program.notes) >= 4)
        seconds = (datetime.now(UTC) - began).total_seconds()
        with Client(server_url) as client:
            messages = client.read(program.app.topics.queue("default")).messages
    assert len(messages) <= seconds + 1
    assert len({decode_call(one.value or b"").id for one in messages}) == len(messages)


CHORD = """
    @app.task(retries=1000)
    def member(number):
        sleep(0.02)
        return number

    @app.task(retries=1000)
    async def callback(numbers):
        note(f"callback {len(numbers)} {sum(numbers)}")
        return sum(numbers)
"""


def test_a_chord_ends_exactly_once_over_kills_of_workers_and_node(tmp_path: Path) -> None:
    members, kills = (1000, 20) if LONG else (100, 4)
    chance = random.Random(18)
    node = NodeProcess(tmp_path / "data").start()
    port = node.url.rpartition(":")[2]
    program = Program(tmp_path, node.url, CHORD, lease="2s")
    workers = [program.worker("--concurrency", "2").start() for _ in range(2)]
    try:
        result = chord([program.member.s(n) for n in range(members)], program.callback.s()).send()
        for kill in range(kills):
            let_pass(chance.uniform(0.2, 1.0))
            if kill % 3 == 2:
                node.kill()
                node = NodeProcess(tmp_path / "data", "--rest", f"127.0.0.1:{port}").start()
            else:
                place = chance.randrange(2)
                workers[place].kill()
                workers[place] = program.worker("--concurrency", "2").start(wait=False)
        assert result.get(240) == sum(range(members))
        with Client(node.url) as client:
            calls = [one for one in everything(client, program.app.topics.queue("default")) if one == result.id]
            results = [one for one in everything(client, program.app.topics.results) if one == result.id]
        assert (len(calls), len(results)) == (1, 1), "sent once, and ended once"
        # It is sent once. If a worker is killed while it runs, it has to run again: that is not counted as an end.
        assert set(program.notes) == {f"callback {members} {sum(range(members))}"}
    finally:
        for worker in workers:
            worker.kill()
        node.kill()


def everything(client: Client, topic: str) -> list[str]:
    """The ids of all calls or results in a topic."""
    found: list[str] = []
    page = client.read(topic, limit=10_000)
    while page.messages:
        found += [one.key_text or decode_call(one.value or b"").id for one in page]
        page = client.read(topic, from_=page.next, limit=10_000)
    return found
