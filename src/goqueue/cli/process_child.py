"""One process of several on a machine: a node that its supervisor started, and that stops when that one is gone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

import msgspec
import uvloop

from goqueue.base.decoders import from_json
from goqueue.base.errors import DiskFull, GoQueueError, Startup
from goqueue.cli.logs import set_up_logs
from goqueue.cli.process_orders import ORDERS_BYTES_MAX, ProcessNews, ProcessOrders
from goqueue.cli.serve import SWITCH_S, settle_memory, started_unless_stopped
from goqueue.console import pages
from goqueue.node import Node, Together

logger = logging.getLogger(__name__)


def main() -> None:
    """Orders come on standard input, which stays open as long as the supervisor lives."""
    line = sys.stdin.buffer.readline(ORDERS_BYTES_MAX)
    orders = from_json(line, ProcessOrders)
    set_up_logs(orders.settings.logging, fields={"process_number": orders.number})
    sys.setswitchinterval(SWITCH_S)
    try:
        uvloop.run(_serve(orders))
    except (Startup, DiskFull) as error:
        _say(ProcessNews(failure=_why(error)))
        sys.exit(1)


async def _serve(orders: ProcessOrders) -> None:
    loop, asked_to_stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    loop.add_reader(sys.stdin.fileno(), lambda: _look(asked_to_stop))
    node = Node(orders.settings, pages(orders.settings.rest.console_read_only), None, Together(orders.holds_data_dir))
    loop.add_signal_handler(signal.SIGHUP, node.reload)
    started = await started_unless_stopped(node, asked_to_stop)
    if started is None:
        return
    settle_memory()
    _say(ProcessNews(started))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the supervisor reads no more: a full pipe would hold this up
    await asked_to_stop.wait()
    await node.stop()


def _look(asked_to_stop: asyncio.Event) -> None:
    """The supervisor says nothing more: what comes is its end."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        if not asked_to_stop.is_set():
            logger.error("the supervisor is gone; this process stops")
        asked_to_stop.set()


def _why(error: GoQueueError) -> str:
    return f"{error.message} ({error.code})"


def _say(news: ProcessNews) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
