"""As many requests as go, with one API key: `python -m bench.flood DOOR ADDRESS ID SECRET TOKEN LINES SECONDS`.

`DOOR` is `kafka` (small produces, many at a time on each connection), `fetch` (reads of the same bytes) or `rest`
(publishes). Prints a line when all connections are open and busy, waits for one, and prints at the end how many
requests were answered from then on.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final, cast

import uvloop

from bench.http_load import Connection, post
from goqueue.format.records import NewRecord, build
from goqueue.wire.frames import encode_request_frame
from goqueue.wire.messages import fetch, produce, sasl_authenticate, sasl_handshake
from goqueue.wire.shape import ClientApi

TOPIC: Final = "load"
_AHEAD: Final = 16  # requests under way on a connection to Kafka's door


def _frame(api: ClientApi, version: int, request: object) -> bytes:
    return b"".join(encode_request_frame(api, version, 1, b"flood", request))


def produced() -> bytes:
    batch = build([NewRecord(None, b"x" * 100, (), time.time_ns() // 1_000_000)])
    topic = produce.TopicProduceData(TOPIC, partition_data=[produce.PartitionProduceData(0, batch)])
    return _frame(produce.API, 7, produce.ProduceRequest(None, -1, 30_000, [topic]))


def fetched() -> bytes:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=65_536)
    topics = [fetch.FetchTopic(topic=TOPIC, partitions=[part])]
    asked = fetch.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=65_536, session_epoch=-1, topics=topics)
    return _frame(fetch.API, 11, asked)


class KafkaLine(asyncio.Protocol):
    """Answers are counted by their sizes, which stand in front of them."""

    def __init__(self, key_id: str, secret: str, request: bytes) -> None:
        self._request = request
        self._left = 0  # bytes of the answer that is coming in
        self._head = b""
        self._login = [
            _frame(sasl_handshake.API, 1, sasl_handshake.SaslHandshakeRequest("PLAIN")),
            _frame(
                sasl_authenticate.API, 1, sasl_authenticate.SaslAuthenticateRequest(f"\0{key_id}\0{secret}".encode())
            ),
        ]
        self.answered = 0
        self.is_in = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._login.pop(0))

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        count = self._count(data)
        if self.is_in.done():
            self.answered += count
            self.transport.write(self._request * count)
        elif self._login:
            self.transport.write(self._login.pop(0))
        else:
            self.is_in.set_result(None)
            self.transport.write(self._request * _AHEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_in.done():
            self.is_in.set_exception(ConnectionError("not let in"))

    def _count(self, data: bytes) -> int:
        """Answers that are whole with this."""
        count, data = 0, self._head + data
        at = 0
        while True:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                if self._left:
                    break
                count += 1
            if len(data) - at < 4:
                break
            self._left = int.from_bytes(data[at : at + 4], "big")
            at += 4
        self._head = data[at:]
        return count


async def kafka(address: str, key_id: str, secret: str, request: bytes, lines: int, seconds: float) -> int:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    made = [
        (await loop.create_connection(lambda: KafkaLine(key_id, secret, request), host, int(port)))[1]
        for _ in range(lines)
    ]
    await asyncio.gather(*(one.is_in for one in made))
    await _begun()
    before = sum(one.answered for one in made)
    await asyncio.sleep(seconds)
    return sum(one.answered for one in made) - before


async def _begun() -> None:
    """When whoever started this says so: several floods are counted in the same time."""
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


def published(url: str, token: str) -> bytes:
    head, _, body = post(f"{url}/topics/{TOPIC}/messages", b'{"messages":[{"value":"v"}]}').partition(b"\r\n\r\n")
    return b"%b\r\nAuthorization: Bearer %b\r\n\r\n%b" % (head, token.encode(), body)


async def rest(url: str, token: str, lines: int, seconds: float) -> int:
    host, _, port = url.rpartition("/")[2].rpartition(":")
    loop, request, counts = asyncio.get_running_loop(), published(url, token), [0] * lines
    made = [(await loop.create_connection(Connection, host, int(port)))[1] for _ in range(lines)]

    async def run(number: int) -> None:
        while True:
            await made[number].send(request)
            counts[number] += 1

    running = [asyncio.ensure_future(run(number)) for number in range(lines)]
    await _begun()
    before = sum(counts)
    done, _ = await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for one in done:
        one.result()
    for one in running:
        one.cancel()
    return sum(counts) - before


def main(arguments: list[str]) -> None:
    door, address, key_id, secret, token, lines, seconds = arguments
    if door == "rest":
        count = uvloop.run(rest(address, token, int(lines), float(seconds)))
    else:
        request = produced() if door == "kafka" else fetched()
        count = uvloop.run(kafka(address, key_id, secret, request, int(lines), float(seconds)))
    print(count, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
