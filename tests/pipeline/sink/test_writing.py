"""The sink without Spark, against a real node."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.client.staged import Staged
from goqueue.client.staged import staged as staged_call
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.sink.staged_sets import SinkRefused
from goqueue.pipeline.sink.task import Task
from goqueue.pipeline.sink.writing import SinkTarget, TaskPart, give_up, stage_rows
from goqueue.pipeline.sink.writing import commit_parts as commit_parts_or
from tests.pipeline.topics import contents, make_topic

pytestmark = pytest.mark.usefixtures("watched")


def commit_parts(there: SinkTarget, parts: list[TaskPart]) -> None:
    commit_parts_or(there, parts, "Try again.")


def rows(*values: str, key: str | None = None) -> pa.RecordBatch:
    keys = pa.array([key] * len(values), pa.string())
    return pa.record_batch({"key": keys, "value": pa.array(values, pa.string())})


def target(node: NodeProcess, topic: str | None, *columns: str) -> SinkTarget:
    return SinkTarget(node.kafka, node.url, topic, columns or ("key", "value"))


def values(node: NodeProcess, topic: str, isolation: str = "read_committed") -> list[str]:
    return sorted((one.value or b"").decode() for one in contents(node, topic, isolation))


def owner(node: NodeProcess, name: str) -> Staged:
    with Client(node.url) as client:
        return client.perform(staged_call(name))


def test_rows_are_seen_after_the_commit_and_all_at_once(module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "all-at-once", 2)
    there = target(module_node, topic)
    parts = [stage_rows(there, "q-once", 0, Task(n, 0), [rows(f"a{n}", f"b{n}")]) for n in range(3)]
    assert values(module_node, topic) == []
    commit_parts(there, parts)
    assert values(module_node, topic) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert [part.rows for part in parts] == [2, 2, 2]


def test_a_repeated_commit_changes_nothing(module_node: NodeProcess) -> None:
    there = target(module_node, make_topic(module_node, "repeated"))
    parts = [stage_rows(there, "q-repeated", 3, Task(0, 0), [rows("one")])]
    commit_parts(there, parts)
    commit_parts(there, parts)
    assert values(module_node, "repeated") == ["one"]
    assert owner(module_node, "q-repeated").last_batch == 3


def test_a_batch_that_is_written_again_after_its_commit_is_dropped(
    module_node: NodeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    there = target(module_node, make_topic(module_node, "again"))
    for _ in range(2):
        commit_parts(there, [stage_rows(there, "q-again", 0, Task(0, 0), [rows("one", "two")])])
    assert values(module_node, "again") == ["one", "two"]
    assert len(values(module_node, "again", "read_uncommitted")) == 4, "the second run did write"
    assert owner(module_node, "q-again").open == []
    assert "Batch 0 of q-again was committed before; 2 rows written again are dropped." in caplog.text


def test_a_task_without_rows_asks_the_node_nothing(module_node: NodeProcess) -> None:
    nowhere = SinkTarget("127.0.0.1:9", "http://127.0.0.1:9", "t", ("value",))
    assert stage_rows(nowhere, "q", 0, Task(0, 0), [rows()]) == TaskPart("q", 0, 0)
    assert stage_rows(nowhere, "q", 0, Task(0, 0), []) == TaskPart("q", 0, 0)


def test_a_batch_without_rows_clears_what_an_earlier_run_left(module_node: NodeProcess) -> None:
    there = target(module_node, make_topic(module_node, "leftovers"))
    stage_rows(there, "q-left", 5, Task(0, 0), [rows("lost driver")])
    commit_parts(there, [TaskPart("q-left", 5, 0)])
    found = owner(module_node, "q-left")
    assert (found.open, found.last_batch) == ([], 5)
    assert values(module_node, "leftovers") == []


def test_no_message_at_all_is_nothing_to_commit() -> None:
    commit_parts(SinkTarget("127.0.0.1:9", "http://127.0.0.1:9", "t", ("value",)), [])


def test_each_row_can_name_its_topic(module_node: NodeProcess) -> None:
    make_topic(module_node, "left")
    make_topic(module_node, "right")
    mixed = pa.record_batch({"value": ["l", "r"], "topic": ["left", "right"]})
    there = target(module_node, None, "value", "topic")
    commit_parts(there, [stage_rows(there, "q-mixed", 0, Task(0, 0), [mixed])])
    assert (values(module_node, "left"), values(module_node, "right")) == (["l"], ["r"])


def test_a_topic_for_all_hides_the_rows_own(module_node: NodeProcess) -> None:
    make_topic(module_node, "for-all")
    mixed = pa.record_batch({"value": ["x"], "topic": ["no such topic"]})
    there = target(module_node, "for-all", "value")
    commit_parts(there, [stage_rows(there, "q-for-all", 0, Task(0, 0), [mixed])])
    assert values(module_node, "for-all") == ["x"]


def test_a_task_that_fails_lets_readers_go_on_at_once(module_node: NodeProcess) -> None:
    """What is staged holds readers back; a task that dies takes its own rows away."""
    there = target(module_node, make_topic(module_node, "failing"))

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows("half")
        raise ValueError("a poison row")

    with pytest.raises(ValueError, match="a poison row"):
        stage_rows(there, "q-failing", 0, Task(0, 0), failing())
    assert owner(module_node, "q-failing").open == []
    with Client(module_node.url) as client:
        client.publish("failing", "after")
    assert values(module_node, "failing") == ["after"]


def test_a_topic_that_is_not_there_is_made_or_named_as_the_node_is_set(
    module_node: NodeProcess, tmp_path: Path
) -> None:
    """As with Kafka: by default a write makes the topic."""
    there = target(module_node, "made-by-writing")
    commit_parts(there, [stage_rows(there, "q-made", 0, Task(0, 0), [rows("x")])])
    assert values(module_node, "made-by-writing") == ["x"]
    with NodeProcess(tmp_path / "data", settings={"GOQUEUE_TOPICS_AUTO_CREATE": "off"}) as strict:
        with pytest.raises(PipelineError, match=r"There is no .*never-made"):
            stage_rows(target(strict, "never-made"), "q-unknown", 0, Task(0, 0), [rows("x")])
        assert owner(strict, "q-unknown").open == []


def test_parts_of_two_batches_are_not_committed_as_one(module_node: NodeProcess) -> None:
    with pytest.raises(PipelineError, match="2 batches"):
        commit_parts(target(module_node, "any"), [TaskPart("q", 0, 0), TaskPart("q", 1, 0)])


def test_a_zombie_cannot_write_behind_the_commit(module_node: NodeProcess) -> None:
    """A slow attempt goes on after a faster one won: what it still writes is refused, what it wrote is gone."""
    there = target(module_node, make_topic(module_node, "zombie"))
    goes_on = threading.Event()
    told: list[BaseException] = []

    def slow() -> Iterator[pa.RecordBatch]:
        yield rows("slow one")
        started.set()
        assert goes_on.wait(60)
        yield from (rows(*["slow two"] * 1000) for _ in range(100))

    def zombie() -> None:
        try:
            stage_rows(there, "q-zombie", 0, Task(0, 0), slow())
        except PipelineError as why:
            told.append(why)

    started = threading.Event()
    thread = threading.Thread(target=zombie)
    thread.start()
    assert started.wait(60)
    commit_parts(there, [stage_rows(there, "q-zombie", 0, Task(0, 1), [rows("winner")])])
    goes_on.set()
    thread.join(60)
    assert len(told) == 1, "the zombie was not told to stop"
    assert values(module_node, "zombie") == ["winner"]
    assert owner(module_node, "q-zombie").open == []


def test_an_attempt_that_was_replaced_cannot_be_committed(module_node: NodeProcess) -> None:
    there = target(module_node, make_topic(module_node, "replaced"))
    old = stage_rows(there, "q-replaced", 0, Task(0, 0), [rows("old")])
    new = stage_rows(there, "q-replaced", 0, Task(0, 0), [rows("new")])
    with pytest.raises(SinkRefused, match=r"Batch 0 of q-replaced could not be committed: .*Nothing was.*Try again\."):
        commit_parts(there, [old])
    commit_parts(there, [new])
    assert values(module_node, "replaced") == ["new"]


def test_giving_up_never_undoes_what_is_durable(module_node: NodeProcess, caplog: pytest.LogCaptureFixture) -> None:
    there = target(module_node, make_topic(module_node, "durable"))
    commit_parts(there, [stage_rows(there, "q-durable", 0, Task(0, 0), [rows("kept")])])
    give_up(there, "q-durable", 0)
    assert values(module_node, "durable") == ["kept"]
    assert "was committed all the same" in caplog.text


def test_giving_up_drops_what_is_staged(module_node: NodeProcess) -> None:
    there = target(module_node, make_topic(module_node, "dropped"))
    stage_rows(there, "q-dropped", 0, Task(0, 0), [rows("gone")])
    give_up(there, "q-dropped", 0)
    assert owner(module_node, "q-dropped").open == []
    assert values(module_node, "dropped") == []


def test_rows_written_are_counted_in_the_log(module_node: NodeProcess, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "goqueue.pipeline.sink")
    there = target(module_node, make_topic(module_node, "counted"))
    commit_parts(there, [stage_rows(there, "q-counted", 4, Task(0, 0), [rows("a", "b"), rows("c")])])
    assert "Batch 4 of q-counted: 3 rows of 1 writers committed." in caplog.text


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.fixture
def lasting_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that comes back at the same addresses."""
    flags = ("--kafka", f"127.0.0.1:{_free_port()}", "--rest", f"127.0.0.1:{_free_port()}")
    with NodeProcess(tmp_path / "data", *flags) as running:
        yield running


def test_a_node_that_is_down_at_the_commit_is_waited_for(lasting_node: NodeProcess) -> None:
    there = target(lasting_node, make_topic(lasting_node, "down"))
    part = stage_rows(there, "q-down", 0, Task(0, 0), [rows("kept")])
    lasting_node.kill()
    committing = threading.Thread(target=commit_parts, args=(there, [part]))
    committing.start()
    lasting_node.start()
    committing.join(60)
    assert not committing.is_alive()
    assert values(lasting_node, "down") == ["kept"]
