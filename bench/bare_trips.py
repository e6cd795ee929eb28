"""The least that one message's way costs: `python -m bench.bare_trips DIRECTORY SYNCS` answers publish, poll and ack.

The same HTTP server as the node's with nothing behind it: a published message goes to whoever polls, as it came. Each of
the three requests is answered after a write of 4 KiB to a preallocated file and a sync, on the loop; with 0 without.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from goqueue.base.limits import KIB, MIB

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_BLOCK = 4 * KIB
_HEAD = b'{"messages": [{"value": "'
_TAIL = b'", "receipt": "bench:0:1:1:0123456789abcdef"}], "generation": 1, "rebalance": false}'
_EMPTY = b'{"messages": [], "generation": 1}'
_JOINED = b'{"member_id": "bare", "generation": 1}'


class Bare:
    """Messages are told apart by their first eight bytes, which is all that the load looks at."""

    def __init__(self, directory: Path, has_syncs: bool) -> None:
        self._fd = os.open(directory / "bare-trips", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
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
        if not self._messages:
            waiting = asyncio.get_running_loop().create_future()
            self._polls.append(waiting)
            await asyncio.wait([waiting], timeout=1.0)
            if not waiting.done():
                self._polls.remove(waiting)
        if not self._messages:
            return _EMPTY
        value = self._messages.popleft()
        self._sync()
        return _HEAD + value + _TAIL


def main(directory: Path, has_syncs: bool) -> None:
    app = Bare(directory, has_syncs)
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", lifespan="off", log_config=None, access_log=False)
    sock.listen()  # whoever reads the port may connect at once
    print(sock.getsockname()[1], flush=True)
    uvloop.run(uvicorn.Server(config).serve(sockets=[sock]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] != "0")
