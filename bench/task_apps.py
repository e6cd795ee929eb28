"""The same task for each framework: it does nothing, counts its own call in a file that all its processes share, and
every hundredth notes the time. Text, since each runs in an environment of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

MARK_EVERY: Final = 100

_WORK: Final = f"""
import mmap, os, time
_marks = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_calls = mmap.mmap(os.open(os.environ["CALLS"], os.O_RDWR), 0)

def work(number):
    if number % {MARK_EVERY} == 0:
        os.write(_marks, b"%.6f\\n" % time.time())
    _calls[number] += 1
"""


class TaskPeer(msgspec.Struct, frozen=True):
    """`fill` is code that sends `count` calls; `worker` is its command, in the environment's `bin`."""

    name: str
    packages: tuple[str, ...]
    server: str  # redis, rabbitmq or goqueue
    app: str
    fill: str
    worker: tuple[str, ...]
    environ: Mapping[str, str] = {}
    count: int = 10_000  # enough for seconds of work, so that what a worker holds ahead is a small part of it


GOQUEUE: Final = TaskPeer(
    "GoQueue",
    (),
    "goqueue",
    _WORK
    + """
from goqueue import App
app = App(os.environ["SERVER"], name="bench")

@app.task(results=False)
def noop(number):
    work(number)

@app.task(results=False)
async def noop_async(number):
    work(number)
""",
    "from noop import noop\nfor at in range(0, count, 1000): noop.send(range(at, at + 1000))",
    ("goqueue", "worker", "noop:app", "--concurrency", "8"),
    count=200_000,
)
GOQUEUE_ASYNC: Final = msgspec.structs.replace(
    GOQUEUE,
    name="GoQueue, async",
    fill="from noop import noop_async\nfor at in range(0, count, 1000): noop_async.send(range(at, at + 1000))",
)

PEERS: Final = [
    TaskPeer(
        "Celery on Redis",
        ("celery>=5.5", "redis>=6.1", "packaging"),
        "redis",
        _WORK
        + """
from celery import Celery
app = Celery("bench", broker=os.environ["SERVER"])
app.conf.update(task_acks_late=True, task_ignore_result=True, worker_hijack_root_logger=False)

@app.task
def noop(number):
    work(number)
""",
        "from noop import noop\nfor at in range(count): noop.delay(at)",
        ("celery", "-A", "noop", "worker", "-c", "8", "--loglevel", "error"),
        {"C_FORCE_ROOT": "1"},
    ),
    TaskPeer(
        "Dramatiq on RabbitMQ",
        ("dramatiq[rabbitmq]>=1.17",),
        "rabbitmq",
        _WORK
        + """
import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
dramatiq.set_broker(RabbitmqBroker(url=os.environ["SERVER"]))

@dramatiq.actor
def noop(number):
    work(number)
""",
        "from noop import noop\nfor at in range(count): noop.send(at)",
        ("dramatiq", "noop", "--processes", "1", "--threads", "8"),
    ),
    TaskPeer(
        "arq on Redis",
        ("arq>=0.26",),
        "redis",
        _WORK
        + """
from arq.connections import RedisSettings

async def noop(ctx, number):
    work(number)

class Worker:
    functions = [noop]
    max_jobs = 8
    keep_result = 0
    redis_settings = RedisSettings.from_dsn(os.environ["SERVER"])
""",
        """
import asyncio
from arq import create_pool
from noop import Worker
async def main():
    pool = await create_pool(Worker.redis_settings)
    for at in range(count):
        await pool.enqueue_job("noop", at)
asyncio.run(main())
""",
        ("arq", "noop.Worker"),
    ),
    TaskPeer(
        "taskiq on Redis",
        ("taskiq>=0.11", "taskiq-redis>=1.0"),
        "redis",
        _WORK
        + """
from taskiq_redis import RedisStreamBroker
broker = RedisStreamBroker(os.environ["SERVER"])

@broker.task(task_name="noop")
async def noop(number):
    work(number)
""",
        """
import asyncio
from noop import broker, noop
async def main():
    await broker.startup()
    for at in range(count):
        await noop.kiq(at)
    await broker.shutdown()
asyncio.run(main())
""",
        ("taskiq", "worker", "noop:broker", "--workers", "1", "--max-async-tasks", "8", "--ack-type", "when_executed"),
    ),
]
