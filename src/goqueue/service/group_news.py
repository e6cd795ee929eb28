"""Settings and members of a group, told to the nodes that keep queue views of it as soon as they change.

Only nodes that asked about the group are told. One that does not hear it asks again in a few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from goqueue.base.errors import GoQueueError
from goqueue.core.groups.records import GroupConfig, GroupState, Record
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.place_news import PlaceOffset

CHANGED: Final = "groups.changed"
_TOLD_S: Final = 1.0
_GROUPS_MAX: Final = 10_000


class GroupFacts(msgspec.Struct, frozen=True):
    """What views have to know of a group."""

    config: Mapping[str, str]
    is_share: bool
    offsets: list[PlaceOffset]
    members: frozenset[str] = frozenset()  # of a share group


class ChangedGroup(msgspec.Struct, frozen=True):
    group: str
    facts: GroupFacts


class GroupNews:
    """Of the groups that this node keeps."""

    def __init__(
        self, elsewhere: Elsewhere, facts: Callable[[str], GroupFacts], hear: Callable[[str, GroupFacts], None]
    ) -> None:
        """`facts` are those of a group of this node; `hear` is what is done with news from others."""
        self._elsewhere = elsewhere
        self._facts = facts
        self._hear = hear
        self._askers: dict[str, set[int]] = {}
        self._telling: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        elsewhere.serve(CHANGED, ChangedGroup, self._heard)

    def asked(self, group: str, node: int) -> None:
        """That node wants to hear of the group from now on."""
        if len(self._askers) >= _GROUPS_MAX:
            self._askers.clear()
        self._askers.setdefault(group, set()).add(node)

    def wrote(self, records: Iterable[Record]) -> None:
        """The coordinator wrote these."""
        for group in self._changed(records):
            if group in self._telling:
                self._again.add(group)
            else:
                self._telling[group] = task = self._elsewhere.spawn(self._tell(group))
                task.add_done_callback(lambda _, group=group: self._telling.pop(group, None))  # type: ignore[misc]

    async def told(self, records: Iterable[Record]) -> None:
        """Returns when the others know, or cannot be told."""
        tasks = [self._telling[group] for group in self._changed(records) if group in self._telling]
        if tasks:
            await asyncio.wait(tasks)

    def _changed(self, records: Iterable[Record]) -> set[str]:
        """Groups of which others want to know it."""
        return {
            one.group
            for one in records
            if one.group in self._askers
            and (isinstance(one, GroupConfig) or (isinstance(one, GroupState) and one.kind == "share"))
        }

    async def _tell(self, group: str) -> None:
        while True:
            self._again.discard(group)
            try:
                news = ChangedGroup(group, self._facts(group))
            except GoQueueError:
                return  # another node keeps it by now
            await asyncio.gather(*(self._tell_node(node, news) for node in list(self._askers.get(group, ()))))
            if group not in self._again:
                return

    async def _tell_node(self, node: int, news: ChangedGroup) -> None:
        try:
            async with asyncio.timeout(_TOLD_S):
                await self._elsewhere.ask_node(node, CHANGED, news, bool)
        except (GoQueueError, TimeoutError):
            self._askers.get(news.group, set()).discard(node)

    async def _heard(self, news: ChangedGroup) -> bool:
        self._hear(news.group, news.facts)
        return True
