"""Of which shards a node does not have everything yet that it had, or should have had, before."""

from __future__ import annotations

from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import ShardRecord


def lagging_shards(image: Image, node: int, start: str) -> list[int]:
    """Those of the node's shards in which this start of it is not in sync. A shard that is on its way to the node is
    not one of them: its former replicas keep it until it has arrived."""
    held = {shard: record for shard in image.shards() if node in _settled(record := image.shard(shard))}
    return [shard for shard, record in held.items() if not record.counts(node, start)]


def _settled(record: ShardRecord) -> tuple[int, ...]:
    return record.before or record.replicas
