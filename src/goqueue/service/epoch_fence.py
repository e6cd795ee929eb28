"""Refuses what a shard's former leader still has to say."""

from __future__ import annotations

from goqueue.base.errors import FencedEpoch, NotLeader
from goqueue.base.ids import Epoch
from goqueue.drive.per_shard import ShardMap


class EpochFence:
    """Goes by the image of the metadata, and by who asked before: that may be news to the image."""

    def __init__(self, shards: ShardMap) -> None:
        self._shards = shards
        self._heard: dict[int, Epoch] = {}  # the latest, by shard

    def check(self, shard: int, epoch: Epoch) -> None:
        """`FencedEpoch` if a later leader of the shard is known than the one of this epoch."""
        try:
            known = self._shards.epoch(shard)
        except NotLeader:
            known = 0
        latest = self._heard[shard] = max(known, self._heard.get(shard, 0), epoch)
        if epoch < latest:
            raise FencedEpoch(f"Shard {shard} is led in epoch {latest}, not {epoch}; ask for the leader again.")
