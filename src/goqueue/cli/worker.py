"""`goqueue worker`: runs the tasks of an app until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import click
import uvloop

from goqueue.cli.failures import Failed
from goqueue.worker import InvalidOption, Worker
from goqueue.worker.finding import find_app
from goqueue.worker.reloading import watch_and_restart

_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"


@click.command()
@click.argument("app", metavar="MODULE:APP")
@click.option("--queues", metavar="A,B", help="Take tasks of these queues; default: all that the app's tasks name.")
@click.option("--concurrency", default=8, show_default=True, help="Functions that run at once, each in a thread.")
@click.option("--async-concurrency", type=int, help="Async functions that run at once; default as --concurrency.")
@click.option("--reload", is_flag=True, help="Start again when a Python file below the folder changes.")
@click.option("--log-level", default="info", show_default=True, help="debug, info, warning or error.")
def worker(
    app: str, queues: str | None, concurrency: int, async_concurrency: int | None, reload: bool, log_level: str
) -> None:
    """Run the tasks of an app until SIGTERM or Ctrl-C.

    Then it takes no more, gives back what has not begun, and ends when what runs is done. A second signal gives back
    what runs too, and ends at once.
    """
    sys.path.insert(0, str(Path.cwd()))
    if reload and "GOQUEUE_WORKER_CHILD" not in os.environ:
        sys.exit(watch_and_restart(sys.argv, Path.cwd()))
    logging.basicConfig(level=log_level.upper(), format=_FORMAT, stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    chosen = [one.strip() for one in queues.split(",") if one.strip()] if queues else None
    try:
        found = find_app(app)
        made = Worker(found, queues=chosen, concurrency=concurrency, async_concurrency=async_concurrency, app_path=app)
    except InvalidOption as error:
        raise Failed(str(error)) from None
    uvloop.run(_run(made, app))


async def _run(made: Worker, path: str) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, made.stop)
    telling = asyncio.create_task(_tell(made, path))
    try:
        await made.run()
    finally:
        telling.cancel()


async def _tell(made: Worker, path: str) -> None:
    await made.is_ready.wait()
    click.echo(f"Ready: {path} takes {len(made.app.tasks)} tasks of {', '.join(made.queues)} from {made.app.url}")
