"""Many requests at once on one connection: in order, and others have their turn in between."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from goqueue.edge.kafka.budget import Budget
from goqueue.edge.kafka.calls import ConnectionEnd, KafkaPeer
from goqueue.edge.kafka.connection import KafkaConnection, WayIn
from goqueue.edge.kafka.passes import BEGIN_S

REQUESTS = 1_000


class Wire:
    """Takes all answers at once."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_read = True

    def writelines(self, pieces: list[bytes]) -> None:
        self.written += [bytes(one) for one in pieces]

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def set_write_buffer_limits(self, high: int) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class Door:
    """Lets everybody in."""

    def opened(self, connection: KafkaConnection) -> str:
        return ""

    def closed(self, connection: KafkaConnection) -> None: ...

    def refused(self, why: str) -> None: ...


def test_requests_that_came_together_leave_others_their_turn() -> None:
    async def main() -> None:
        time_s, wire = 0.0, Wire()

        def serve(frame: memoryview, peer: KafkaPeer, local: tuple[str, int], end: ConnectionEnd) -> list[Any]:
            nonlocal time_s
            time_s += BEGIN_S / 10
            return [bytes(frame)]

        connection = KafkaConnection(serve, 1_000, Budget(1 << 20), Door(), lambda: time_s, WayIn())
        connection.connection_made(cast(asyncio.Transport, wire))
        names = [b"%d" % number for number in range(REQUESTS)]
        connection.data_received(b"".join(len(one).to_bytes(4, "big") + one for one in names))
        passes = 0
        while len(wire.written) < REQUESTS:
            assert len(wire.written) <= (passes + 1) * 20
            assert not wire.is_read, "what came first is begun first"
            passes += 1
            await asyncio.sleep(0)
        assert wire.written == names and wire.is_read
        connection.connection_lost(None)

    asyncio.run(main())


def test_a_connection_that_ends_in_between_begins_nothing_more() -> None:
    async def main() -> None:
        time_s, wire = 0.0, Wire()

        def serve(frame: memoryview, peer: KafkaPeer, local: tuple[str, int], end: ConnectionEnd) -> list[Any]:
            nonlocal time_s
            time_s += BEGIN_S
            return [bytes(frame)]

        connection = KafkaConnection(serve, 1_000, Budget(1 << 20), Door(), lambda: time_s, WayIn())
        connection.connection_made(cast(asyncio.Transport, wire))
        connection.data_received(b"\0\0\0\1a" * 50)
        begun = len(wire.written)
        connection.connection_lost(None)
        await asyncio.sleep(0.01)
        assert 0 < len(wire.written) == begun < 50

    asyncio.run(main())
