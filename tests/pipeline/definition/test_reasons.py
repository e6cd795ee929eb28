from __future__ import annotations

import pytest

from goqueue.pipeline.definition.reasons import causes, reason

_TRACEBACK = """[PYTHON_ERROR] Failed when Python perform read: Traceback (most recent call last):
  File "reader.py", line 265, in main
    func_id = read_int(infile)
ValueError: no number

SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([], "it ended without a word"),
        (["\n"], "it ended without a word"),
        (["a column is missing\nmore"], "a column is missing"),
        (["Exception thrown in awaitResult: \nmore", "the state is not there\nat a place"],
         "Exception thrown in awaitResult: the state is not there"),
        (["It failed: the disk is full", "", "the disk is full"], "It failed: the disk is full"),
        (["java.io.IOException: No space left on device", "No space left on device"],
         "java.io.IOException: No space left on device. "
         "Make room for its checkpoint, and where Spark keeps temporary files"),
        ([_TRACEBACK], "[PYTHON_ERROR] Failed when Python perform read: ValueError: no number"),
        (["Job aborted", "goqueue.pipeline.link.errors.TopicNotFound: There is no topic 'a'."],
         "goqueue.pipeline.link.errors.TopicNotFound: There is no topic 'a'."),
    ],
)  # fmt: skip
def test_the_cause_is_told_in_one_line(texts: list[str], told: str) -> None:
    assert reason(texts) == told


def test_causes_come_from_the_outermost_to_the_innermost() -> None:
    class Captured(Exception):
        _cause: Exception | None = None

    inner, outer = Captured("inner"), Captured("outer")
    outer._cause = inner
    assert causes(outer) == ["outer", "inner"]
    inner._cause = outer
    assert len(causes(outer)) == 20, "a ring ends"
