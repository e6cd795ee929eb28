"""How much the shards hold that this node leads, how busy they are, and how much of it each follower lacks."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from goqueue.core.replication.copy_rates import CopyState
from goqueue.drive.topic_table import TopicTable
from goqueue.service.cluster_view import LedShards


class ShardSize(msgspec.Struct, frozen=True):
    """`behind`: messages that a follower lacks, by node. `copies`: bytes, of those that are not in sync. Rates are
    bytes a second."""

    shard: int
    bytes: int
    messages: int
    behind: dict[int, int]
    copies: dict[int, CopyState] = {}
    written_per_s: int = 0
    read_per_s: int = 0


class ShardSizes:
    """A verb that all nodes are asked."""

    def __init__(self, table: TopicTable, lags: Callable[[], LedShards]) -> None:
        self._table = table
        self._lags = lags

    async def led(self) -> list[ShardSize]:
        return [self._size(shard, self._lags()) for shard in self._lags().lags()]

    def _size(self, shard: int, known: LedShards) -> ShardSize:
        held = [partition for _, partition in self._table.in_shard(shard)]
        size, rates = sum(one.size_bytes for one in held), known.traffic(shard)
        messages = sum(one.end_offset - one.start_offset for one in held)
        behind = {node: lag.messages for node, lag in known.lags()[shard].items()}
        return ShardSize(shard, size, messages, behind, known.copies(shard), int(rates.written), int(rates.read))
