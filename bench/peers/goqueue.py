"""GoQueue's queue through REST: joins, long polls with receipts, acks. A lean client: the node is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bench.http_load import Connection, Refused, connect, get, post
from bench.peers.client import GROUP, QUEUE, Handle, Taken

PARTITIONS = 3


class Message(msgspec.Struct, gc=False):
    value: str
    receipt: str


class Polled(msgspec.Struct):
    messages: list[Message]
    generation: int


class Joined(msgspec.Struct):
    member_id: str
    generation: int


_joined = msgspec.json.Decoder(Joined)
_polled = msgspec.json.Decoder(Polled)
_encode = msgspec.json.Encoder().encode


class Client:
    def __init__(self, port: int, config: Mapping[str, int | str] | None = None) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.config = config or {}
        self._free: list[Connection] = []
        self._all: list[Connection] = []
        self._names = 0

    async def create(self) -> None:
        asked = {"name": QUEUE, "num_partitions": PARTITIONS, "config": self.config}
        try:
            await self._send(post(f"{self.url}/topics", _encode(asked)))
        except Refused as refused:
            if refused.status != 409:  # it exists
                raise

    async def publish(self, bodies: Sequence[bytes]) -> None:
        messages = [{"value": body.decode()} for body in bodies]
        await self._send(post(f"{self.url}/topics/{QUEUE}/messages", _encode({"messages": messages})))

    async def _send(self, request: bytes) -> bytes:
        """On a connection that nobody uses; there are as many as requests at once."""
        if not self._free:
            self._free = await connect(self.url, 1)
            self._all += self._free
        line = self._free.pop()
        try:
            return await line.send(request)
        finally:
            self._free.append(line)

    async def consumer(self, group: str = GROUP, **more: Any) -> Consumer:
        self._names += 1
        line = (await connect(self.url, 1))[0]
        asked = {"client_id": f"bench-{self._names}", "topics": [QUEUE], "mode": "shared", "auto_commit": False}
        answer = await line.send(post(f"{self.url}/groups/{group}/join", _encode({**asked, **more})))
        return Consumer(f"{self.url}/groups/{group}", f"{self.url}/messages/ack", line, _joined.decode(answer))

    async def close(self) -> None:
        for line in self._all:
            line.close()


class Consumer:
    def __init__(self, group_url: str, ack_url: str, line: Connection, joined: Joined) -> None:
        self._group_url = group_url
        self._ack_url = ack_url
        self._member_id = joined.member_id
        self._generation = joined.generation
        self._asked = (-1, -1, -1)
        self._request = b""
        self.line = line

    async def take(self, limit: int, wait_ms: int) -> Sequence[Taken]:
        if self._asked != (limit, wait_ms, self._generation):
            self._asked = (limit, wait_ms, self._generation)
            who = f"member_id={self._member_id}&generation={self._generation}"
            self._request = get(f"{self._group_url}/poll?{who}&limit={limit}&timeout={wait_ms}ms")
        polled = _polled.decode(await self.line.send(self._request))
        self._generation = polled.generation
        return [(message.value, message.receipt) for message in polled.messages]

    async def ack(self, handles: Sequence[Handle]) -> None:
        await self.line.send(post(self._ack_url, _encode({"receipts": handles})))

    async def close(self) -> None:
        await self.line.send(post(f"{self._group_url}/leave", _encode({"member_id": self._member_id})))
        self.line.close()
