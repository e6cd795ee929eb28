"""Where share groups stand in partitions: looked at, moved and forgotten by administrators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.base.ids import Offset, TopicPartition
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.states import MessageState
from goqueue.core.groups.errors import GroupNotEmpty, UnknownGroup
from goqueue.core.groups.requests import OffsetCommit
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.service.groups import Groups
from goqueue.service.positions import Positions
from goqueue.service.topics import Topics


class ShareStart(msgspec.Struct, frozen=True):
    """Everything below `start` is done, -1 if the group never took from there; `lag` is what is left to do, or -1."""

    at: TopicPartition
    start: Offset
    lag: int
    leader_epoch: int = 0


class ShareOffsets:
    """The verbs."""

    def __init__(self, runner: DeliveryShards, positions: Positions, groups: Groups, topics: Topics) -> None:
        self._runner = runner
        self._positions = positions
        self._groups = groups
        self._topics = topics

    def known(self, group: str) -> list[TopicPartition]:
        """Partitions that the group took from."""
        self._require(group)
        return sorted(one.view.at for one in self._runner.of(group))

    def start(self, group: str, at: TopicPartition) -> ShareStart:
        self._require(group)
        partition = self._topics.require_users(at.topic).partition(at.partition)
        view = ViewId(group, at.topic, at.partition)
        delivery = self._runner.find(view)
        if delivery is None:
            committed = self._groups.offsets(group, [at]).get(at)
            return ShareStart(at, -1 if committed is None else committed.offset, -1, partition.leader_epoch)
        lag = self._positions.backlog(view, partition)
        lag += delivery.count(MessageState.LEASED) + delivery.count(MessageState.WAITING)
        return ShareStart(at, self._positions.position(delivery), lag, partition.leader_epoch)

    async def alter(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        """The group begins anew at these offsets, also with what is done behind them; only while it has no members."""
        self._require(group)
        offsets = {at: self._within(at, offset) for at, offset in offsets.items()}
        await self._groups.reset_offsets(
            group, [OffsetCommit(at.topic, at.partition, offset) for at, offset in offsets.items()]
        )
        for at, offset in offsets.items():
            delivery = self._runner.find(ViewId(group, at.topic, at.partition))
            if delivery is not None:
                self._runner.write(delivery, delivery.open_at(offset))
        await self._runner.wait_durable(offsets)

    def _within(self, at: TopicPartition, offset: Offset) -> Offset:
        """The nearest offset that the log has."""
        partition = self._topics.require_users(at.topic).partition(at.partition)
        return min(max(offset, partition.start_offset), partition.high_watermark)

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
        gone = set(topics)
        self._runner.forget(lambda view: view.group == group and view.topic in gone)
        await self._runner.wait_durable(places)

    def _require(self, group: str) -> None:
        if not self._groups.is_share(group):
            raise UnknownGroup(f"No share group {group!r}.", field="group")
