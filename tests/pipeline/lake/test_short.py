"""What is told of a batch that failed: one line with the cause, wherever it was raised."""

from __future__ import annotations

import pytest

from goqueue.pipeline.lake.writing import short

FROM_JAVA = """An error occurred while calling o1300.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 9.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2844)
"""
FROM_A_WORKER = """Traceback (most recent call last):
  File "job.py", line 1, in <module>
ValueError: it does not fit
"""


class JavaError(Exception):
    """As Py4J raises it."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            JavaError(f"{FROM_JAVA}Caused by: java.io.EOFException: it crashed\n\t... 1 more"),
            "java.io.EOFException: it crashed",
        ),
        (JavaError(FROM_JAVA), FROM_JAVA.splitlines()[1].removeprefix(": ")),
        (JavaError(FROM_JAVA.splitlines()[0]), FROM_JAVA.splitlines()[0]),
        (RuntimeError(FROM_A_WORKER), "RuntimeError: ValueError: it does not fit"),
        (ValueError("no\nmore"), "ValueError: no"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_cause_is_told_in_one_line(error: Exception, told: str) -> None:
    assert short(error) == told
