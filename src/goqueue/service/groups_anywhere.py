"""Groups as queue views see them, wherever a group is kept: its settings, where it stands, and that it moved.

What another node keeps is asked for before a view is opened and remembered; that node tells of changes from then on. It
is asked again now and then, since it may be another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from goqueue.base.errors import GoQueueError, NotLoaded
from goqueue.base.ids import Offset, TopicPartition
from goqueue.core.groups.errors import UnknownMember
from goqueue.core.groups.records import OffsetCommitted
from goqueue.core.groups.share_config import ORDER, ShareRules, share_rules, takes_uncommitted
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.group_news import GroupFacts, GroupNews
from goqueue.service.groups import Groups
from goqueue.service.place_news import Outbox, PlaceOffset

FACTS: Final = "groups.facts"
MOVED: Final = "groups.moved"
_FRESH_S: Final = 5.0
_GROUPS_MAX: Final = 10_000


class GroupQuestion(msgspec.Struct, frozen=True):
    """`node` asks, and is told from then on."""

    group: str
    places: Sequence[TopicPartition] = ()
    node: int = -1


class _Known:
    """Of one group that another node keeps."""

    def __init__(self, facts: GroupFacts) -> None:
        self.facts = facts
        self.as_of = asyncio.get_running_loop().time()
        self.offsets: dict[TopicPartition, Offset] = {}


class GroupsAnywhere:
    """The questions of `Groups` that views ask."""

    def __init__(self, here: Groups, elsewhere: Elsewhere) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        shards = elsewhere.shards
        self._moves = Outbox(
            elsewhere, MOVED, lambda one: shards.of_partition(one.at), lambda one: shards.of_id(one.group), self._moved
        )
        self._echo: PlaceOffset | None = None
        self._members_heard: Callable[[str, Collection[str]], None] = lambda _, __: None
        self.news = GroupNews(elsewhere, self._facts, self._changed)
        elsewhere.serve(FACTS, GroupQuestion, self._tell)

    def attach(self, members_heard: Callable[[str, Collection[str]], None]) -> None:
        """Told who is in a share group that another node keeps."""
        self._members_heard = members_heard

    def is_here(self, group: str) -> bool:
        return self._elsewhere.is_here(self._elsewhere.shards.of_id(group))

    # --- what views ask --------------------------------------------------------------------------------------

    def is_loaded(self, group: str) -> bool:
        """Whether it can be asked; a group that another node keeps is asked about in the background."""
        if self.is_here(group):
            return self._here.is_loaded(group)
        if group not in self._known:
            self._refresh(group)
        return group in self._known

    def offsets(self, group: str, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetCommitted]:
        if self.is_here(group):
            return self._here.offsets(group, places)
        known = self._known.get(group)
        if known is None:
            self._refresh(group)
            raise NotLoaded(f"Another node keeps the group {group!r} and is being asked; try again in a moment.")
        found = {at: known.offsets[at] for at in places if at in known.offsets}
        return {at: OffsetCommitted(group, at.topic, at.partition, one, -1, "", -1) for at, one in found.items()}

    def move(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> bool:
        if self.is_here(group):
            return self._here.move(group, offsets)
        for at, offset in offsets.items():
            self._moves.put(PlaceOffset(group, at, offset))
        return True

    async def moves_told(self, group: str) -> None:
        """Returns when the node that keeps the group knows how far its views are, or cannot be told now."""
        await self._moves.told(group)

    def share_rules(self, group: str) -> ShareRules:
        return share_rules(self._config(group))

    def rules_of_share(self, group: str) -> ShareRules | None:
        if self.is_here(group):
            return self._here.rules_of_share(group)
        known = self._known.get(group)
        return self.share_rules(group) if known is not None and known.facts.is_share else None

    def keeps_order(self, group: str) -> bool:
        return self._here.keeps_order(group) if self.is_here(group) else self._config(group).get(ORDER) == "key"

    def takes_uncommitted(self, group: str) -> bool:
        return self._here.takes_uncommitted(group) if self.is_here(group) else takes_uncommitted(self._config(group))

    def _config(self, group: str) -> Mapping[str, str]:
        if self.is_here(group):
            return self._here.config(group)
        known = self._known.get(group)
        return {} if known is None else known.facts.config

    def has_member(self, group: str, member_id: str) -> bool:
        """Of a group that another node keeps everybody is believed until it was asked: see `learn_member`."""
        if self.is_here(group):
            return self._here.has_member(group, member_id)
        known = self._known.get(group)
        return known is None or member_id in known.facts.members

    def is_echo(self, news: PlaceOffset) -> bool:
        """Whether the group is just being moved there by the view itself."""
        return news == self._echo

    def forget(self, group: str) -> None:
        """It is gone."""
        self._known.pop(group, None)

    # --- learning --------------------------------------------------------------------------------------------

    async def learn(self, group: str, new: Sequence[TopicPartition]) -> None:
        """Before the group takes something: afterwards all can be asked. `new` are partitions that it has no view of:
        where it stands there is asked now."""
        if self.is_here(group):
            return
        known = self._known.get(group)
        if known is None or new:
            await self._ask(group, new)
        elif asyncio.get_running_loop().time() - known.as_of > _FRESH_S:
            self._refresh(group)

    async def learn_member(self, group: str, member_id: str) -> None:
        """Whoever is not known as a member of a group elsewhere is asked about, as it may be new. `UnknownMember`."""
        if self.is_here(group) or (group in self._known and self.has_member(group, member_id)):
            return
        await self._ask(group, ())
        if not self.has_member(group, member_id):
            raise UnknownMember("The group does not know this member; it has to join by a heartbeat first.")

    def _refresh(self, group: str) -> None:
        if group not in self._asking and asyncio._get_running_loop() is not None:
            self._asking[group] = task = self._elsewhere.spawn(self._ask_again(group))
            task.add_done_callback(lambda _: self._asking.pop(group, None))

    async def _ask_again(self, group: str) -> None:
        with suppress(GoQueueError):  # who needs it asks again
            await self._ask(group, ())

    async def _ask(self, group: str, places: Sequence[TopicPartition]) -> None:
        shards = self._elsewhere.shards
        question = GroupQuestion(group, places, shards.node)
        facts = await self._elsewhere.ask(shards.of_id(group), FACTS, question, GroupFacts)
        if len(self._known) >= _GROUPS_MAX:
            self._known.clear()
        self._learned(group, facts, places)

    def _learned(self, group: str, facts: GroupFacts, places: Sequence[TopicPartition] = ()) -> None:
        before, self._known[group] = self._known.get(group), _Known(facts)
        self._known[group].offsets = {**(before.offsets if before is not None else {})}
        for at in places:
            self._known[group].offsets.pop(at, None)
        self._known[group].offsets.update((one.at, one.offset) for one in facts.offsets)
        if facts.is_share:
            self._members_heard(group, facts.members)

    def _changed(self, group: str, facts: GroupFacts) -> None:
        if group in self._known and not self.is_here(group):
            self._learned(group, facts)

    # --- for other nodes -------------------------------------------------------------------------------------

    async def _tell(self, asked: GroupQuestion) -> GroupFacts:
        committed = self._here.offsets(asked.group, asked.places) if asked.places else {}
        offsets = [PlaceOffset(asked.group, at, one.offset) for at, one in committed.items()]
        self.news.asked(asked.group, asked.node)
        return msgspec.structs.replace(self._facts(asked.group), offsets=offsets)

    def _facts(self, group: str) -> GroupFacts:
        """Of a group that is here, without where it stands."""
        is_share = self._here.is_share(group)
        members = frozenset(self._here.member_ids(group)) if is_share else frozenset[str]()
        return GroupFacts(dict(self._here.config(group)), is_share, [], members)

    async def _moved(self, places: Sequence[PlaceOffset]) -> None:
        """Only forward: what comes late was overtaken."""
        for one in places:
            known = self._here.offsets(one.group, [one.at]).get(one.at)
            if known is None or known.offset < one.offset:
                self._move(one)
        for group in {one.group for one in places}:
            await self._here.wait_durable(group)

    def _move(self, one: PlaceOffset) -> None:
        self._echo = one
        try:
            if not self._here.move(one.group, {one.at: one.offset}):
                raise NotLoaded(f"The group {one.group!r} cannot be moved now; try again in a moment.")
        finally:
            self._echo = None
