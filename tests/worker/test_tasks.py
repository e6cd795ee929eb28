"""Tasks through a node and a worker process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.client.dead_letters import DeadLetter, dead_letters
from goqueue.worker import InvalidCall, ResultTimeout, TaskFailed
from tests.waiting import wait_until
from tests.worker.workers import Program, WorkerProcess

CODE = """
    import dataclasses, datetime

    @dataclasses.dataclass
    class Order:
        id: int
        day: datetime.date

    @app.task
    def add(a: int, b: int = 1):
        return a + b

    @app.task
    async def double(number):
        await asyncio.sleep(0)
        return number * 2

    @app.task
    def next_day(order: Order) -> Order:
        return dataclasses.replace(order, day=order.day + datetime.timedelta(days=1))

    @app.task(retries=2, backoff=0.01)
    def fail(text):
        note(f"{text} {current().attempt} {current().failures}")
        raise ValueError(text)

    @app.task(retries=3, backoff=[0.01])
    def fail_once():
        if current().failures == 0:
            raise Retry("later", delay="10ms")
        return current().attempt

    @app.task(retries=5)
    def refuse():
        raise Reject("never")

    @app.task(timeout=0.2, retries=0)
    def too_long():
        while True:
            sleep(0.01)

    @app.task(timeout=0.2, retries=0)
    async def too_long_async():
        await asyncio.sleep(60)

    @app.task(pool="process")
    def in_process():
        return os.getpid()

    @app.task(pool="process", retries=0)
    def dies():
        os.kill(os.getpid(), signal.SIGKILL)

    @app.task(pool="process", retries=0, timeout=0.5)
    def hangs():
        sleep(60)

    @app.task(results=False)
    def quiet():
        note("quiet")

    @app.task(queue="mails", priority="high")
    def mail():
        return current().queue

    @app.task(rate_limit="20/s")
    def paced():
        note(time.time())

    @app.task
    def calls_another():
        return add.delay(1, 2).id

    @app.task
    def where():
        return current().traceparent

    @app.task
    def unencodable():
        return object()
"""


@pytest.fixture(scope="module")
def program(server: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("program"), server.url, CODE)


@pytest.fixture(scope="module")
def working(program: Program) -> Iterator[WorkerProcess]:
    with program.worker("--concurrency", "4") as worker:
        yield worker


def letters_of(program: Program, queue: str = "default") -> list[DeadLetter]:
    with Client(program.app.url) as client:
        return client.perform(dead_letters(program.app.topics.queue(queue), {"limit": "100"})).messages


def test_functions_and_async_functions_give_results(program: Program, working: WorkerProcess) -> None:
    first, second = program.add.delay(1, b=2), program.double.delay(21)
    assert (first.get(30), second.get(30)) == (3, 42)
    assert program.app.result(first.id).get(30) == 3, "by its id alone"


def test_arguments_and_results_are_what_the_annotations_say(program: Program, working: WorkerProcess) -> None:
    order = program.Order(7, datetime(2026, 1, 31).date())
    assert program.next_day.delay(order).get(30) == program.Order(7, datetime(2026, 2, 1).date())


def test_many_calls_are_one_request(program: Program, working: WorkerProcess) -> None:
    results = program.add.send([(n, n) for n in range(250)])
    assert results.get(60) == [2 * n for n in range(250)]
    assert program.double.send([1, 2, program.double.s(3)]).get(30) == [2, 4, 6]


def test_calls_that_cannot_be_are_refused_before_they_are_sent(program: Program) -> None:
    with pytest.raises(InvalidCall, match=r"add: missing a required argument: 'a'"):
        program.add.delay()
    with pytest.raises(InvalidCall, match=r"argument 2 cannot be encoded \(object cannot be JSON\)"):
        program.add.delay(1, object())


def test_a_call_waits_for_its_time(program: Program, working: WorkerProcess) -> None:
    begin = datetime.now(UTC)
    soon, at = program.add.at("300ms", 1, 1), program.add.at(begin + timedelta(seconds=0.3), 2, 2)
    assert (soon.get(30), at.get(30)) == (2, 4)
    assert datetime.now(UTC) - begin >= timedelta(seconds=0.3)
    with pytest.raises(ResultTimeout):
        program.add.at(timedelta(hours=1), 1).get(0.1)


def test_one_that_raises_three_times_is_in_the_dead_letters_with_its_traceback(
    program: Program, working: WorkerProcess
) -> None:
    with pytest.raises(TaskFailed, match="ValueError: boom") as caught:
        program.fail.delay("boom").get(60)
    assert "raise ValueError(text)\nValueError: boom\n" in caught.value.traceback
    assert [one for one in program.notes if one.startswith("boom")] == ["boom 1 0", "boom 2 1", "boom 3 2"]
    (letter,) = wait_until(lambda: [one for one in letters_of(program) if "boom" in one.error])
    assert letter.error.startswith("Traceback (most recent call last):")
    assert "in fail\n    raise ValueError(text)" in letter.error


def test_a_task_asks_for_another_try_or_for_none(program: Program, working: WorkerProcess) -> None:
    assert program.fail_once.delay().get(30) == 2
    with pytest.raises(TaskFailed, match="Reject: never"):
        program.refuse.delay().get(30)


@pytest.mark.parametrize("name", ["too_long", "too_long_async", "hangs"])
def test_a_task_that_takes_too_long_is_interrupted(program: Program, working: WorkerProcess, name: str) -> None:
    with pytest.raises(TaskFailed, match=r"TaskTimeout: It ran for longer than 0\.\d s\."):
        getattr(program, name).delay().get(60)


def test_a_task_runs_in_a_process_of_its_own_whose_death_is_its_failure(
    program: Program, working: WorkerProcess
) -> None:
    assert program.in_process.delay().get(60) != working.pid
    with pytest.raises(TaskFailed, match=r"WorkerLost: The process of the task died \(signal 9\)"):
        program.dies.delay().get(60)
    assert program.in_process.delay().get(60)


def test_a_result_that_is_no_json_is_a_failure(program: Program, working: WorkerProcess) -> None:
    with pytest.raises(TaskFailed, match=r"InvalidCall: The result of .* cannot be encoded: object cannot be JSON"):
        program.unencodable.delay().get(30)


def test_queues_priorities_and_tasks_without_results(program: Program, working: WorkerProcess) -> None:
    assert program.mail.delay().get(30) == "mails"
    quiet = program.quiet.delay()
    wait_until(lambda: "quiet" in program.notes)
    with pytest.raises(ResultTimeout):
        quiet.get(0.2)


def test_starts_of_a_task_with_a_rate_are_spread(program: Program, working: WorkerProcess) -> None:
    program.paced.send([()] * 12).get(60)
    times = [float(one) for one in program.notes if one.replace(".", "").isdigit()]
    assert times[-1] - times[0] >= 11 / 20 * 0.9


def test_a_task_calls_another(program: Program, working: WorkerProcess) -> None:
    assert program.app.result(program.calls_another.delay().get(30)).get(30) == 3


@pytest.mark.asyncio
async def test_programs_on_asyncio_call_and_wait(program: Program, working: WorkerProcess) -> None:
    first = await program.add.adelay(1, 2)
    second = await program.double.adelay(4)
    assert [await first, await second.aget(30)] == [3, 8]
    assert await (await program.double.asend([1, 2])).aget(30) == [2, 4]
    assert await (await program.add.aat("10ms", 5)) == 6


def test_a_message_that_is_no_call_is_a_dead_letter(program: Program, working: WorkerProcess) -> None:
    with Client(program.app.url) as client:
        client.publish(program.app.topics.queue("default"), "nonsense")
    wait_until(lambda: any("no call of a task" in one.error for one in letters_of(program)))


def test_the_callers_trace_goes_on_in_the_task(program: Program, working: WorkerProcess) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider().get_tracer("test").start_as_current_span("caller") as span:
        told = program.where.delay().get(30)
    assert told.split("-")[1] == f"{span.get_span_context().trace_id:032x}"
    with Client(program.app.url) as client:
        from goqueue.client.traces import trace

        events = client.perform(trace(told.split("-")[1])).spans
    assert "publish.persisted" in [one.name for one in events]
