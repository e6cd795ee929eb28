"""Celery, unchanged, runs its jobs through the node: acks, retries and countdowns."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from tests.door.sqs.clients import client
from tests.waiting import let_pass, wait_until

pytest.importorskip("pycurl")
ROOT = Path(__file__).parents[3]
SEND = """
from tests.door.sqs import jobs
for number in range(120): jobs.add.delay(number)
for number in range(5): jobs.flaky.delay(number)
jobs.add.apply_async((1000,), countdown=3)
"""


@contextmanager
def worker(environ: dict[str, str], log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "tests.door.sqs.jobs", "worker", "--pool", "solo", "-l", "warning"]
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environ, cwd=ROOT, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def words(notes: Path) -> list[list[str]]:
    return [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []


@pytest.mark.slow
def test_a_hundred_jobs_with_retries_and_a_countdown(node: NodeProcess, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    broker = node.sqs.replace("http://", "sqs://key:secret@")
    environ = {**os.environ, "JOBS_BROKER": broker, "JOBS_NOTES": str(notes)}
    subprocess.run([sys.executable, "-c", SEND], env=environ, cwd=ROOT, check=True, timeout=60)
    sent = time.time()
    with worker(environ, tmp_path / "worker.log"):
        wait_until(lambda: sum(one[0] != "try" for one in words(notes)) >= 126, (tmp_path / "worker.log").read_text)
        let_pass(2)  # what was acked does not come again
    found = words(notes)
    assert sorted(int(one[1]) for one in found if one[0] == "add") == [*range(120), 1000], (
        tmp_path / "worker.log"
    ).read_text()
    assert sorted(int(one[1]) for one in found if one[0] == "flaky") == list(range(5))
    assert sum(one[0] == "try" for one in found) == 15
    (late,) = [float(one[2]) for one in found if one[:2] == ["add", "1000"]]
    assert late - sent > 2
    with client(node.sqs) as sqs:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        shown = sqs.get_queue_attributes(QueueUrl="celery-jobs", AttributeNames=names)["Attributes"]
        assert set(shown.values()) == {"0"}, "every job is acked"
