"""What a task's rows are called after."""

from __future__ import annotations

import pytest

from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.sink.task import Task, attempt_number, this_task


def test_attempts_of_one_stage_never_share_a_number() -> None:
    numbers = {attempt_number(attempt, task) for attempt in range(4) for task in (7, 8, 15, 1000 + attempt)}
    assert len({attempt_number(attempt, 5) for attempt in range(4)}) == 4
    assert max(numbers) < 4 * 8


def test_the_first_attempt_of_a_repeated_stage_has_another_number() -> None:
    assert attempt_number(0, 100) != attempt_number(0, 103)


def test_numbers_do_not_grow_with_the_age_of_the_query() -> None:
    assert attempt_number(0, 10**12) < 8


def test_a_task_of_a_stream_knows_its_query_and_batch() -> None:
    assert Task(3, 0, "query", 7).stream_batch() == ("query", 7)


def test_a_task_outside_of_a_stream_is_told_what_to_use_instead() -> None:
    with pytest.raises(PipelineError, match="foreachBatch with the options txnAppId and txnVersion"):
        Task(3, 0).stream_batch()


def test_outside_of_spark_there_is_no_task() -> None:
    with pytest.raises(PipelineError, match="this is none"):
        this_task()
