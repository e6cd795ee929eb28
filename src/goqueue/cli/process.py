"""One process of the supervisor's: started, listened to, and started again when it dies."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.cli.process_orders import ORDERS_BYTES_MAX, ProcessNews, ProcessOrders

logger = logging.getLogger(__name__)

_PROGRAM: Final = "from goqueue.cli.process_child import main; main()"
_STEADY_S: Final = 10.0  # a process that lived so long is started again at once
_WAIT_S_MAX: Final = 5.0


class NodeChild:
    """`start` again after `ended`. Its session is its own: Ctrl-C reaches only the supervisor."""

    def __init__(self, number: int, orders: ProcessOrders, lock: int) -> None:
        """`lock` is a descriptor that it is to have as long as it lives."""
        self.number = number
        self.node = orders.settings.node.id
        self.news = ProcessNews()
        self.ready = asyncio.Event()
        self._orders = orders
        self._lock = lock
        self._process: asyncio.subprocess.Process | None = None
        self._began = 0.0
        self._wait_s = 0.0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """`OSError` if the machine has no room for it now. Nothing is loaded from the working directory."""
        self.ready.clear()
        self._began = asyncio.get_running_loop().time()
        command = [sys.executable, "-P", "-c", _PROGRAM, "--data", self._orders.settings.data.dir]
        self._process = process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=ORDERS_BYTES_MAX,
            pass_fds=[self._lock],
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(self._orders) + b"\n")

    async def heard(self) -> bool:
        """What it says of its start: whether it serves. False also if it ends without a word."""
        assert self._process is not None and self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
            self.news = from_json(line, ProcessNews)
        except (ValueError, msgspec.DecodeError):
            self.news = ProcessNews(failure="It ended before it served; its log says why.")
        if not self.news.failure:
            self.ready.set()
        return not self.news.failure

    async def ended(self) -> int:
        """The exit code."""
        assert self._process is not None
        code = await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None
        self.ready.clear()
        return code

    def pause_s(self) -> float:
        """Before it is started again: longer each time that it does not live long."""
        lived = asyncio.get_running_loop().time() - self._began
        self._wait_s = 0.0 if lived > _STEADY_S else min(_WAIT_S_MAX, max(0.1, 2 * self._wait_s))
        return self._wait_s

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)


def how_it_ended(code: int) -> str:
    if code == 0:
        return "stopped"
    return f"died with exit code {code}" if code > 0 else f"was killed ({signal.Signals(-code).name})"
