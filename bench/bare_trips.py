"""The least that one message's way costs: `python -m bench.bare_trips FILE SYNCS` answers publish, poll and ack.

The same HTTP server as the node's with nothing behind it: a published message goes to whoever polls, as it came. With
SYNCS of 1 a publish (together with the poll that it ends) and an ack are answered after a write of 4 KiB to a
preallocated file and its sync, on the loop; with 0 at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from pathlib import Path
from typing import Any

from bench.bare_queue import Receive, Send, serve
from goqueue.base.limits import KIB, MIB

_BLOCK = 4 * KIB
_HEAD = b'{"messages": [{"value": "'
_TAIL = b'", "receipt": "bench:0:1:1:0123456789abcdef"}], "generation": 1, "rebalance": false}'
_EMPTY = b'{"messages": [], "generation": 1}'
_JOINED = b'{"member_id": "bare", "generation": 1}'


class Bare:
    """Messages are told apart by their first eight bytes, which is all that the load looks at."""

    def __init__(self, path: Path, has_syncs: bool) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(self._fd, bytes(MIB))
        os.fsync(self._fd)
        self._has_syncs = has_syncs
        self._at = 0
        self._messages: deque[bytes] = deque()
        self._polls: deque[asyncio.Future[None]] = deque()

    def _sync(self) -> None:
        if self._has_syncs:
            os.pwrite(self._fd, bytes(_BLOCK), self._at)
            os.fdatasync(self._fd)
            self._at = (self._at + _BLOCK) % MIB

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        given = b""
        while True:
            message = await receive()
            given += message.get("body", b"")
            if not message.get("more_body"):
                break
        body = await self._answer(scope["path"], given)
        head = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, path: str, given: bytes) -> bytes:
        if path.endswith("/poll"):
            return await self._poll()
        if path.endswith("/join"):
            return _JOINED
        self._sync()
        if path.endswith("/messages"):
            self._messages.append(given.partition(b'"value":"')[2][:100])
            if self._polls:
                self._polls.popleft().set_result(None)
        return b"{}"

    async def _poll(self) -> bytes:
        if self._messages:
            self._sync()
        else:
            waiting = asyncio.get_running_loop().create_future()
            self._polls.append(waiting)
            await asyncio.wait([waiting], timeout=1.0)
            if not waiting.done():
                self._polls.remove(waiting)
        return _HEAD + self._messages.popleft() + _TAIL if self._messages else _EMPTY


if __name__ == "__main__":
    serve(Bare(Path(sys.argv[1]), sys.argv[2] != "0"))
