"""Keeps the image of the metadata up to date. Who changes the store through it finds the change in the image."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

from goqueue.base.errors import GoQueueError, ShuttingDown, StoreOutOfReach
from goqueue.base.metadata import Change, Commit, Metadata, Revision, WatchedTooLate
from goqueue.core.cluster.image import Image

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5


class ImageFollower:
    """`on_change` is told after the image changed."""

    def __init__(
        self,
        store: Metadata,
        on_change: Callable[[Change], None],
        observe: Callable[[float], None] = lambda _: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """`observe` is told how many seconds each commit took, `failed` that the store was out of reach."""
        self._failed = failed
        self.store = store
        self._observe = observe
        self.image = Image()
        self._on_change = on_change
        self._waiting: list[tuple[Revision, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._read_all()
        self._task = asyncio.create_task(self._follow())
        for key in sorted(self.image.unreadable):
            logger.error("metadata that this version cannot read, left alone", extra={"key": key})

    async def stop(self) -> None:
        await self.store.close()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._end_waits(ShuttingDown("The node is stopping; send the request again later."))

    async def commit(self, commit: Commit) -> None:
        """Durable and in the image when it returns; `MetadataConflict` if something is not as expected."""
        began = time.perf_counter()
        try:
            revision = await self.store.commit(commit)
        except StoreOutOfReach:
            self._failed()
            raise
        self._observe(time.perf_counter() - began)
        await self.reach(revision)

    async def reach(self, revision: Revision) -> None:
        """Returns when the image is as new."""
        if self.image.revision < revision:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, reached))
            await reached

    async def _read_all(self) -> None:
        snapshot, known = await self.store.read(), self.image.revision
        self._changed(self.image.load(snapshot))
        if snapshot.revision < known:
            self._end_waits(StoreOutOfReach("The metadata store was set back to a backup; look what is there now."))

    def _end_waits(self, error: GoQueueError) -> None:
        """What they wait for does not come."""
        waiting, self._waiting = self._waiting, []
        for _, reached in waiting:
            if not reached.done():
                reached.set_exception(error)

    async def _follow(self) -> None:
        """A store that is out of reach is tried again; meanwhile the image is what it was."""
        is_behind = False
        while True:
            try:
                if is_behind:
                    await self._read_all()
                    is_behind = False
                async for change in self.store.watch(self.image.revision):
                    self.image.apply(change)
                    self._changed(change)
                return  # the store was closed
            except WatchedTooLate:
                is_behind = True
            except StoreOutOfReach as error:
                self._failed()
                logger.warning("the metadata store is out of reach; trying again", extra={"error": error.message})
                await asyncio.sleep(_RETRY_S)
            except Exception:  # a node that hears of nothing any more would believe in what it knows for ever
                logger.exception("the metadata could not be followed; it is read anew")
                is_behind = True
                await asyncio.sleep(_RETRY_S)

    def _changed(self, change: Change) -> None:
        self._on_change(change)
        waiting, self._waiting = self._waiting, []
        for revision, reached in waiting:
            if revision > self.image.revision:
                self._waiting.append((revision, reached))
            elif not reached.done():
                reached.set_result(None)
