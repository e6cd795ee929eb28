"""A watch of all keys in etcd that goes on where it was when its member dies, is cut off or falls silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final

import grpc

from goqueue.base.errors import StoreOutOfReach
from goqueue.base.metadata import Change, Entry, Revision, WatchedTooLate
from goqueue.drive.etcd_calls import RANGE, WATCH, EtcdCalls
from goqueue.wire import etcd_pb2 as etcd

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.2


class EtcdWatch:
    """`closing` is done when the store is closed; `entry_of` knows how keys are written; `newest` is the last revision
    that any call has told."""

    def __init__(
        self,
        calls: EtcdCalls,
        keys: tuple[bytes, bytes],
        silence_s: float,
        closing: asyncio.Future[None],
        entry_of: Callable[[etcd.KeyValue], Entry],
        newest: Callable[[], Revision],
    ) -> None:
        self._calls = calls
        self._keys = keys
        self._silence_s = silence_s
        self._closing = closing
        self._entry_of = entry_of
        self._newest = newest

    async def changes(self, after: Revision) -> AsyncIterator[Change]:
        while not self._closing.done():
            try:
                async for response in self._responses(after):
                    for change in self._grouped(response.events):
                        after = change.revision
                        yield change
            except (StoreOutOfReach, grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                logger.warning("the watch of the metadata goes on elsewhere", extra={"error": str(error)})
                await asyncio.wait([self._closing], timeout=_RETRY_S)

    async def _responses(self, after: Revision) -> AsyncIterator[etcd.WatchResponse]:
        member, stream = await self._calls.stream(WATCH)
        try:
            start = etcd.WatchCreate(key=self._keys[0], range_end=self._keys[1], start_revision=after + 1)
            await self._write(stream, etcd.WatchRequest(create=start))
            while (response := await self._next(stream)) is not None:
                if response.compact_revision:
                    raise WatchedTooLate(f"Changes are known from revision {response.compact_revision} on.")
                if response.canceled:
                    raise StoreOutOfReach(f"The watch was ended: {response.cancel_reason}.")
                if response.created and response.header.revision < after:
                    await self._check_history(after)
                yield response
        except (StoreOutOfReach, grpc.aio.AioRpcError, asyncio.InvalidStateError):
            self._calls.leave(member)
            raise
        finally:
            stream.cancel()

    async def _check_history(self, after: Revision) -> None:
        """A member may lag behind the others. A store of which none knows the revision was set back to a backup: what
        it goes on with is another history."""
        newest = (await self._calls.ask(RANGE, etcd.RangeRequest(key=self._keys[0], limit=1))).header.revision
        if newest < after:
            raise WatchedTooLate(f"The store is at revision {newest} again, before {after}.")

    async def _write(self, stream: Any, request: etcd.WatchRequest) -> None:
        """A connection that nobody answers on takes it only after twenty seconds, or never."""
        try:
            async with asyncio.timeout(self._silence_s):
                await stream.write(request)
        except TimeoutError:
            raise StoreOutOfReach("The metadata store takes no watch.") from None

    async def _next(self, stream: Any) -> etcd.WatchResponse | None:
        """None once the store is closed. A silent member is asked for a sign of life, and left if none comes, or if it
        has not heard of what others told before."""
        reading, known = asyncio.ensure_future(stream.read()), self._newest()
        try:
            for is_asked in (False, True):
                await asyncio.wait([reading, self._closing], timeout=self._silence_s, return_when="FIRST_COMPLETED")
                if self._closing.done():
                    return None
                if reading.done():
                    return self._read(reading.result(), known if is_asked else 0)
                if not is_asked:
                    await self._write(stream, etcd.WatchRequest(progress=etcd.WatchProgress()))
            raise StoreOutOfReach("The metadata store fell silent.")
        finally:
            reading.cancel()

    @staticmethod
    def _read(response: Any, known: Revision) -> etcd.WatchResponse:
        if response is grpc.aio.EOF:
            raise StoreOutOfReach("The metadata store ended the watch.")
        found: etcd.WatchResponse = response
        if not found.events and found.header.revision < known:
            raise StoreOutOfReach(f"A member of the metadata store is behind: it has not heard of revision {known}.")
        return found

    def _grouped(self, events: Iterable[etcd.Event]) -> Iterator[Change]:
        """All that one commit did is in one response."""
        for revision, group in groupby(events, lambda event: event.kv.mod_revision):
            puts: list[Entry] = []
            deletes: list[str] = []
            for event in group:
                entry = self._entry_of(event.kv)
                if event.kind == etcd.Event.DELETE:
                    deletes.append(entry.key)
                else:
                    puts.append(entry)
            yield Change(revision, puts, deletes)
