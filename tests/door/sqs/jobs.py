"""A Celery application like any other; only the broker's address is the node's."""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery

app = Celery("jobs", broker=os.environ["JOBS_BROKER"])
app.conf.update(
    task_default_queue="celery-jobs",
    broker_transport_options={
        "region": "us-east-1",
        "is_secure": False,
        "wait_time_seconds": 1,
        "polling_interval": 0.1,
    },
    task_acks_late=True,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
)


def note(*words: object) -> None:
    with Path(os.environ["JOBS_NOTES"]).open("a") as notes:
        notes.write(" ".join(map(str, (*words, time.time()))) + "\n")


@app.task
def add(number: int) -> None:
    note("add", number)


@app.task(bind=True, max_retries=5)
def flaky(self, number: int) -> None:  # type: ignore[no-untyped-def]
    note("try", number)
    if self.request.retries < 2:
        raise self.retry(countdown=1)
    note("flaky", number)
