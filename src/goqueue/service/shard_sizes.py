"""How much the shards hold that this node leads, and how much of it each follower lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from goqueue.core.replication.leader import FollowerLag
from goqueue.drive.topic_table import TopicTable


class ShardSize(msgspec.Struct, frozen=True):
    """`behind`: messages that a follower lacks, by node."""

    shard: int
    bytes: int
    messages: int
    behind: dict[int, int]


class ShardSizes:
    """A verb that all nodes are asked."""

    def __init__(self, table: TopicTable, lags: Callable[[], Mapping[int, Mapping[int, FollowerLag]]]) -> None:
        self._table = table
        self._lags = lags

    async def led(self) -> list[ShardSize]:
        return [
            self._size(shard, {node: lag.messages for node, lag in lags.items()})
            for shard, lags in self._lags().items()
        ]

    def _size(self, shard: int, behind: dict[int, int]) -> ShardSize:
        held = [partition for _, partition in self._table.in_shard(shard)]
        size = sum(one.size_bytes for one in held)
        return ShardSize(shard, size, sum(one.end_offset - one.start_offset for one in held), behind)
