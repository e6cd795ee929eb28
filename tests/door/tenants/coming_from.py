"""A way to a node on which a client comes from an address of choice: gRPC tells a server where a client comes from, and
its clients cannot choose that."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def coming_from(source: str, target: str) -> Iterator[str]:
    """The address at which the target is reached that way."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(_listening(source, target), loop).result(30)
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
        asyncio.run_coroutine_threadsafe(_ended(server), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listening(source: str, target: str) -> asyncio.Server:
    host, _, port = target.rpartition(":")

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port), local_addr=(source, 0))
        await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))

    return await asyncio.start_server(between, "127.0.0.1", 0)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _ended(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
