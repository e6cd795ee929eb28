"""What a group does is told to its queue views at other nodes: offsets that it commits, and that it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from goqueue.base.errors import GoQueueError, NotLoaded
from goqueue.base.ids import TopicPartition
from goqueue.core.delivery.records import ViewId
from goqueue.core.groups.records import OffsetCommitted, Record
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.groups_anywhere import GroupsAnywhere
from goqueue.service.place_news import Hear, Outbox, PlaceOffset

COMMITTED: Final = "views.committed"
GONE: Final = "views.gone"
_AGAIN_S: Final = 0.5
_TRIES_MAX: Final = 60


class ViewNews:
    """Where views and groups are at several nodes. `attach` says what is done with news from others."""

    def __init__(self, elsewhere: Elsewhere, groups: GroupsAnywhere) -> None:
        self._elsewhere = elsewhere
        self._groups = groups
        self._hear: Hear | None = None
        self._forget: Callable[[str], None] = lambda _: None
        shards = elsewhere.shards
        self._commits = Outbox(
            elsewhere,
            COMMITTED,
            lambda one: shards.of_id(one.group),
            lambda one: shards.of_partition(one.at),
            self._heard,
        )
        elsewhere.serve(GONE, str, self._gone)

    def attach(self, hear: Hear, forget: Callable[[str], None]) -> None:
        self._hear, self._forget = hear, forget

    async def _heard(self, news: Sequence[PlaceOffset]) -> None:
        if self._hear is None:
            raise NotLoaded("The node is starting; try again in a moment.")
        await self._hear(news)

    def is_here(self, at: TopicPartition) -> bool:
        """Whether the views of a partition are at this node."""
        return self._elsewhere.is_here(self._elsewhere.shards.of_partition(at))

    def committed(self, record: OffsetCommitted) -> None:
        """Not if it was the view itself that moved the group."""
        news = _news_of(record)
        if not self._groups.is_echo(news):
            self._commits.put(news)

    def tells(self, record: OffsetCommitted) -> bool:
        """Whether an earlier commit of the place still has to be told."""
        return self._commits.tells(_news_of(record))

    def wrote(self, records: Sequence[Record]) -> None:
        """The coordinator wrote these: nodes that have views of the groups hear of their settings and members."""
        self._groups.news.wrote(records)

    async def told(self, records: Sequence[Record]) -> None:
        """Returns when they have heard."""
        await self._groups.news.told(records)

    async def moves_told(self, group: str) -> None:
        """Returns when the group knows how far its views here are."""
        await self._groups.moves_told(group)

    # --- groups that are gone --------------------------------------------------------------------------------

    def gone(self, group: str) -> None:
        self._elsewhere.spawn(self._tell_gone(group))

    async def _tell_gone(self, group: str) -> None:
        told: set[int] = {self._elsewhere.shards.node}
        for _ in range(_TRIES_MAX):
            try:
                for node in set(self._elsewhere.leaders()) - told:
                    await self._elsewhere.ask_node(node, GONE, group, bool)
                    told.add(node)
                return
            except GoQueueError:
                await asyncio.sleep(_AGAIN_S)

    async def _gone(self, group: str) -> bool:
        self._groups.forget(group)
        self._forget(group)
        return True

    # --- views that were loaded ------------------------------------------------------------------------------

    def later(self, view: ViewId, work: Callable[[ViewId], None]) -> None:
        """As soon as it is known where the view's group stands."""
        self._elsewhere.spawn(self._when_known(view, work))

    async def _when_known(self, view: ViewId, work: Callable[[ViewId], None]) -> None:
        while self.is_here(view.at):
            try:
                await self._groups.learn(view.group, [view.at])
                work(view)
                return
            except GoQueueError:
                await asyncio.sleep(_AGAIN_S)


def _news_of(record: OffsetCommitted) -> PlaceOffset:
    return PlaceOffset(record.group, TopicPartition(record.topic, record.partition), record.offset)
