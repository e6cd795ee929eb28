"""Calls between two nodes, and what strangers, other clusters and broken connections get."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from goqueue.base.errors import DiskFull, NotFound, Overloaded, PeerLost, WrongCluster
from goqueue.drive.peer_link import PeerConnection, PeerLink
from goqueue.edge.peers import door as door_module
from goqueue.edge.peers.door import CALLS_MAX, PeerDoor
from goqueue.wire.node_frames import (
    HELLO_BYTES_MAX,
    PROTOCOL,
    Hello,
    Kind,
    encode_call,
    encode_frame,
    encode_hello,
)
from tests.waiting import wait_until_async

SERVER = Hello(PROTOCOL, "c1", 1, "1.1", "0")
CLIENT = Hello(PROTOCOL, "c1", 2, "2.1", "0")


class Verbs:
    def __init__(self) -> None:
        self.asleep = 0
        self.cancelled = 0

    async def echo(self, peer: Hello, body: bytes) -> bytes:
        return b"%d " % peer.node_id + body

    async def full(self, peer: Hello, body: bytes) -> bytes:
        raise DiskFull("No room here.")

    async def broken(self, peer: Hello, body: bytes) -> bytes:
        raise ZeroDivisionError

    async def sleep(self, peer: Hello, body: bytes) -> bytes:
        self.asleep += 1
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.asleep -= 1
        return b""


@asynccontextmanager
async def serving(verbs: Verbs) -> AsyncIterator[PeerDoor]:
    sock = socket.create_server(("127.0.0.1", 0))
    names = {"echo": verbs.echo, "full": verbs.full, "broken": verbs.broken, "sleep": verbs.sleep}
    door = PeerDoor(SERVER, sock, names)
    await door.start()
    try:
        yield door
    finally:
        await door.stop()


def run(scenario: Callable[[PeerDoor, Verbs], Awaitable[None]]) -> None:
    async def main() -> None:
        verbs = Verbs()
        async with serving(verbs) as door, asyncio.timeout(120):
            await scenario(door, verbs)

    uvloop.run(main())


def link_to(door: PeerDoor, me: Hello = CLIENT, peer_id: int | None = 1) -> PeerLink:
    return PeerLink(*door.address, me, peer_id)


def test_many_calls_at_a_time_get_their_own_replies() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        link = link_to(door)
        asked = [link.call("echo", b"%d" % number * (number % 50 + 1), 30) for number in range(200)]
        replies = await asyncio.gather(*asked)
        assert replies == [b"2 " + b"%d" % number * (number % 50 + 1) for number in range(200)]
        large = random.Random(1).randbytes(20_000_000)
        assert await link.call("echo", large, 30) == b"2 " + large
        link.close()

    run(scenario)


def test_errors_travel_as_their_words() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        link = link_to(door)
        with pytest.raises(DiskFull, match="No room here"):
            await link.call("full", b"", 30)
        with pytest.raises(NotFound):
            await link.call("format-disk", b"", 30)
        with pytest.raises(PeerLost):
            await link.call("broken", b"", 30)
        assert await link.call("echo", b"still here", 30) == b"2 still here"
        link.close()

    run(scenario)


def test_a_call_that_takes_too_long_is_stopped_on_both_sides() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        link = link_to(door)
        with pytest.raises(PeerLost):
            await link.call("sleep", b"", 0.2)
        await wait_until_async(lambda: not verbs.asleep)
        waiting = asyncio.create_task(link.call("sleep", b"", 300))
        await wait_until_async(lambda: verbs.asleep)
        waiting.cancel()
        await wait_until_async(lambda: not verbs.asleep)
        assert verbs.cancelled == 2
        link.close()

    run(scenario)


def test_a_connection_that_ends_fails_its_calls_and_the_next_call_makes_another() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        link = link_to(door)
        waiting = asyncio.create_task(link.call("sleep", b"", 300))
        await wait_until_async(lambda: verbs.asleep)
        for connection in list(door._connections):
            connection.close()
        with pytest.raises(PeerLost):
            await waiting
        await wait_until_async(lambda: not verbs.asleep)
        assert await link.call("echo", b"again", 30) == b"2 again"
        link.close()

    run(scenario)


def test_more_calls_than_may_be_under_way_are_refused_and_the_others_go_on() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        link = link_to(door)
        waiting = [asyncio.create_task(link.call("sleep", b"", 300)) for _ in range(CALLS_MAX)]
        await wait_until_async(lambda: verbs.asleep == CALLS_MAX)
        with pytest.raises(Overloaded):
            await link.call("echo", b"", 30)
        for one in waiting:
            one.cancel()
        await wait_until_async(lambda: not verbs.asleep)
        assert await link.call("echo", b"room again", 30) == b"2 room again"
        link.close()

    run(scenario)


@pytest.mark.parametrize(
    "me",
    [Hello(PROTOCOL, "other", 2, "2.1", "0"), Hello(PROTOCOL, "c1", 1, "another start", "0")],
    ids=["of another cluster", "with a number that is taken"],
)
def test_a_node_that_does_not_belong_here_is_told_why(me: Hello) -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        with pytest.raises(WrongCluster):
            await link_to(door, me).call("echo", b"", 30)

    run(scenario)


def test_another_node_at_the_address_is_noticed() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        with pytest.raises(PeerLost, match="not node 7"):
            await link_to(door, peer_id=7).call("echo", b"", 30)

    run(scenario)


def test_nobody_there() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        link = link_to(door)
        await door.stop()
        with pytest.raises(PeerLost, match="cannot be reached"):
            await link.call("echo", b"", 5)

    run(scenario)


def test_an_address_that_never_says_who_it_is() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        mute = socket.create_server(("127.0.0.1", 0))
        with pytest.raises(PeerLost):
            await PeerLink("127.0.0.1", mute.getsockname()[1], CLIENT).call("echo", b"", 0.5)
        mute.close()

    run(scenario)


# --- hostile bytes ------------------------------------------------------------------------------------------


def hostile(seed: int) -> bytes:
    chance = random.Random(seed)
    good = b"".join(encode_frame(Kind.HELLO, 0, encode_hello(CLIENT)))
    call = b"".join(encode_call(1, "echo", 1_000, b"x" * 10))
    whole = bytearray(good * chance.randrange(2) + call * chance.randrange(3) + chance.randbytes(chance.randrange(60)))
    for _ in range(chance.randrange(1, 6)):
        if whole:
            whole[chance.randrange(len(whole))] = chance.randrange(256)
    return bytes(whole)


def test_hostile_bytes_harm_nobody_else() -> None:
    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        link = link_to(door)
        for seed in range(300):
            _, writer = await asyncio.open_connection(*door.address)
            writer.write(hostile(seed))
            writer.write_eof()
            assert await link.call("echo", b"ok", 30) == b"2 ok"
            writer.transport.abort()
        await wait_until_async(lambda: len(door._connections) == 1)
        link.close()

    run(scenario)


def test_a_stranger_is_let_go_after_a_while_and_cannot_send_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "HELLO_S", 0.3)

    async def scenario(door: PeerDoor, verbs: Verbs) -> None:
        reader, writer = await asyncio.open_connection(*door.address)
        assert await reader.read() == b"", "silence"
        writer.close()
        reader, writer = await asyncio.open_connection(*door.address)
        writer.write(b"".join(encode_frame(Kind.HELLO, 0, b"x" * (HELLO_BYTES_MAX + 1)))[:9])
        assert await reader.read() == b"", "refused by its length alone"
        writer.close()

    run(scenario)


def test_the_calling_side_distrusts_the_other_too() -> None:
    async def main() -> None:
        connection = PeerConnection(encode_hello(CLIENT))
        closed: list[bool] = []

        class Wire(asyncio.Transport):
            def writelines(self, pieces: object) -> None: ...

            def abort(self) -> None:
                closed.append(True)

            def is_closing(self) -> bool:
                return bool(closed)

        connection.connection_made(Wire())
        connection.data_received(b"\xff" * 9)
        assert closed
        connection.connection_lost(None)
        with pytest.raises(PeerLost):
            await connection.call("echo", b"", 1)

    uvloop.run(main())
