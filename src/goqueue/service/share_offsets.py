"""Where share groups stand in partitions: looked at, moved and forgotten by administrators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from goqueue.base.ids import Offset, TopicPartition
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.states import MessageState
from goqueue.core.groups.errors import GroupNotEmpty, UnknownGroup
from goqueue.core.groups.requests import OffsetCommit
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.groups import Groups
from goqueue.service.positions import Positions
from goqueue.service.topics import Topics

KNOWN: Final = "share.known"
START: Final = "share.start"
NEAREST: Final = "share.nearest"
OPEN: Final = "share.open"
FORGET: Final = "share.forget"


class ShareStart(msgspec.Struct, frozen=True):
    """Everything below `start` is done, -1 if the group never took from there; `lag` is what is left to do, or -1."""

    at: TopicPartition
    start: Offset
    lag: int
    leader_epoch: int = 0


class ShareQuestion(msgspec.Struct, frozen=True):
    """About a group's view of a partition; the offset is where it is to begin anew, or would begin."""

    group: str
    at: TopicPartition
    offset: Offset = -1


class ForgetViews(msgspec.Struct, frozen=True):
    group: str
    topics: Sequence[str]


class ShareOffsets:
    """The verbs, at the node that keeps the group. Its views may be at others."""

    def __init__(
        self, runner: DeliveryShards, positions: Positions, groups: Groups, topics: Topics, elsewhere: Elsewhere
    ) -> None:
        self._runner = runner
        self._positions = positions
        self._groups = groups
        self._topics = topics
        self._elsewhere = elsewhere
        elsewhere.serve(KNOWN, str, self._known)
        elsewhere.serve(START, ShareQuestion, self._start)
        elsewhere.serve(NEAREST, ShareQuestion, self._nearest)
        elsewhere.serve(OPEN, ShareQuestion, self._open)
        elsewhere.serve(FORGET, ForgetViews, self._forget)

    async def known(self, group: str) -> list[TopicPartition]:
        """Partitions that the group took from, or was told where to begin in."""
        found = [*await self._known(group), *(self._groups.offsets(group) if self._groups.is_share(group) else ())]
        for node in self._others():
            found += await self._elsewhere.ask_node(node, KNOWN, group, list[TopicPartition])
        return sorted(set(found))

    async def _known(self, group: str) -> list[TopicPartition]:
        return [one.view.at for one in self._runner.of(group)]

    def _others(self) -> list[int]:
        if self._elsewhere.is_alone:
            return []
        return [node for node in self._elsewhere.leaders() if node != self._elsewhere.shards.node]

    def _is_here(self, at: TopicPartition) -> bool:
        return self._elsewhere.is_alone or self._elsewhere.is_here(self._elsewhere.shards.of_partition(at))

    async def start(self, group: str, at: TopicPartition) -> ShareStart:
        self._topics.require_users(at.topic).partition(at.partition)
        committed = self._groups.offsets(group, [at]).get(at) if self._groups.is_share(group) else None
        asked = ShareQuestion(group, at, -1 if committed is None else committed.offset)
        if self._is_here(at):
            return await self._start(asked)
        return await self._elsewhere.ask(self._elsewhere.shards.of_partition(at), START, asked, ShareStart)

    async def _start(self, asked: ShareQuestion) -> ShareStart:
        """As the view knows; where there is none, as it would begin."""
        at = asked.at
        partition = self._topics.require_users(at.topic).partition(at.partition)
        view = ViewId(asked.group, at.topic, at.partition)
        delivery = self._runner.find(view)
        if delivery is None:
            lag = -1 if asked.offset < 0 else partition.high_watermark - max(asked.offset, partition.start_offset)
            return ShareStart(at, asked.offset, lag, partition.leader_epoch)
        lag = self._positions.backlog(view, partition)
        lag += delivery.count(MessageState.LEASED) + delivery.count(MessageState.WAITING)
        return ShareStart(at, self._positions.position(delivery), lag, partition.leader_epoch)

    async def alter(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """The group begins anew at these offsets, also with what is done behind them; only while it has no members.
        It is made if it is not there."""
        self.check_reset(group)
        offsets = {at: await self._within(ShareQuestion(group, at, offset)) for at, offset in offsets.items()}
        await self._groups.reset_share_offsets(
            group, [OffsetCommit(at.topic, at.partition, offset) for at, offset in offsets.items()]
        )
        for at, offset in offsets.items():
            asked = ShareQuestion(group, at, offset)
            if self._is_here(at):
                await self._open(asked)
            else:
                await self._elsewhere.ask(self._elsewhere.shards.of_partition(at), OPEN, asked, bool)

    async def _open(self, asked: ShareQuestion) -> bool:
        delivery = self._runner.find(ViewId(asked.group, asked.at.topic, asked.at.partition))
        if delivery is not None:
            self._runner.write(delivery, delivery.open_at(asked.offset))
        await self._runner.wait_durable([asked.at])
        return True

    async def _within(self, asked: ShareQuestion) -> Offset:
        """The nearest offset that the log has, where it is led."""
        self._topics.require_users(asked.at.topic).partition(asked.at.partition)
        if self._is_here(asked.at):
            return await self._nearest(asked)
        return await self._elsewhere.ask(self._elsewhere.shards.of_partition(asked.at), NEAREST, asked, int)

    async def _nearest(self, asked: ShareQuestion) -> Offset:
        partition = self._topics.require_users(asked.at.topic).partition(asked.at.partition)
        return min(max(asked.offset, partition.start_offset), partition.high_watermark)

    def check_reset(self, group: str) -> None:
        self._groups.check_share_reset(group)

    def check_empty(self, group: str) -> None:
        self._require(group)
        if self._groups.describe(group).members:
            raise GroupNotEmpty("The group has members; stop them first.")

    async def delete(self, group: str, topics: Sequence[str]) -> None:
        """The group is new to these topics; only while it has no members."""
        self.check_empty(group)
        places = [
            TopicPartition(name, number)
            for name in topics
            for number in range(len(self._topics.require_users(name).partitions))
        ]
        await self._groups.delete_offsets(group, places)
        asked = ForgetViews(group, list(topics))
        await self._forget(asked)
        for node in self._others():
            await self._elsewhere.ask_node(node, FORGET, asked, bool)

    async def _forget(self, asked: ForgetViews) -> bool:
        gone = set(asked.topics)
        self._runner.forget(lambda view: view.group == asked.group and view.topic in gone)
        await self._runner.wait_durable()
        return True

    def _require(self, group: str) -> None:
        if not self._groups.is_share(group):
            raise UnknownGroup(f"No share group {group!r}.", field="group")
