"""The least that the queue's client takes for a node: `python -m bench.bare_queue COUNT` serves prepared polls.

The same HTTP server as the node's with nothing behind it: no leases, no log, and every ack is thrown away.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvicorn
import uvloop

from bench.compare.bodies import body
from bench.queue_load import BATCH

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

_JOINED = b'{"member_id": "bare", "generation": 1}'
_EMPTY = b'{"messages": [], "generation": 1}'


class Bare:
    def __init__(self, count: int) -> None:
        self._polls = [self._poll(first) for first in range(0, count, BATCH)]

    def _poll(self, first: int) -> bytes:
        messages: list[dict[str, Any]] = [
            {
                "topic": "bench",
                "partition": number % 3,
                "offset": number // 3,
                "timestamp": 1_750_000_000_000 + number,
                "key": None,
                "value": body(number).decode(),
                "headers": {},
                "priority": "normal",
                "receipt": f"bench:{number % 3}:{number // 3}:1:0123456789abcdef",
                "attempt": 1,
            }
            for number in range(first, first + BATCH)
        ]
        return msgspec.json.encode({"messages": messages, "generation": 1, "rebalance": False})

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        path = scope["path"]
        if path.endswith("/poll"):
            body = self._polls.pop() if self._polls else _EMPTY
        else:
            body = _JOINED if path.endswith("/join") else b"{}"
        head = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


def serve(app: App) -> None:
    """Until it is killed; its port is the first line on stdout."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", lifespan="off", log_config=None, access_log=False)
    sock.listen()  # whoever reads the port may connect at once
    print(sock.getsockname()[1], flush=True)
    uvloop.run(uvicorn.Server(config).serve(sockets=[sock]))


if __name__ == "__main__":
    serve(Bare(int(sys.argv[1])))
