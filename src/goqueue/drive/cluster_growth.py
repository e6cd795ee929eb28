"""A node that was alone becomes the first of a cluster: what it knew goes from its files into the store.

It is done before the node registers, so that nobody places shards meanwhile. The cluster's id is written last: a start
that was interrupted does all of it again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from goqueue.base.limits import METADATA_COMMIT_KEYS_MAX
from goqueue.base.metadata import Commit
from goqueue.base.startup_errors import ForeignData
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import CLUSTER, NODES, SHARDS, SLOTS, encode
from goqueue.drive.embedded_metadata import HOME, EmbeddedMetadata
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.offload import Offload
from goqueue.log.disk import Disk

logger = logging.getLogger(__name__)


async def bring_own_metadata(metadata: ImageFollower, disk: Disk, offload: Offload, factor: int) -> None:
    """`ForeignData` if the directory is that of a node that was alone, and the store has a cluster of its own."""
    if not disk.is_dir(HOME):
        return
    own, values = await _own(disk, offload)
    if not own.shards() or metadata.image.cluster_id == own.cluster_id:
        return
    if metadata.image.cluster_id:
        raise ForeignData(
            f"The data directory has topics of its own, of cluster {own.cluster_id}, and the store has cluster "
            f"{metadata.image.cluster_id} already. A node that joins a cluster begins with an empty directory.",
            field="data.dir",
        )
    last: dict[str, str] = {key: values.pop(key) for key in (CLUSTER, SLOTS) if key in values}
    shards = {f"{SHARDS}{number}": growing(own, number, factor) for number in own.shards()}
    rest = {key: value for key, value in values.items() if not key.startswith((SHARDS, NODES))}
    for part in _parts({**rest, **shards}):
        await _put(metadata, part)
    await _put(metadata, last)
    logger.info("the first node of a cluster", extra={"topics": len(own.topics()), "shards": len(shards)})


async def _own(disk: Disk, offload: Offload) -> tuple[Image, dict[str, str]]:
    store, image = EmbeddedMetadata(disk, offload), Image()
    await store.open()
    snapshot = await store.read()
    await store.close()
    image.load(snapshot)
    return image, {key: entry.value for key, entry in snapshot.entries.items() if entry.session is None}


def growing(own: Image, number: int, factor: int) -> str:
    """The record of a shard of a node that was alone. It names a start, which is over: with that it is a shard of a
    cluster."""
    record = own.shard(number)
    starts = dict.fromkeys(record.replicas, "alone")
    return encode(msgspec.structs.replace(record, starts=starts, factor=factor))


def _parts(values: Mapping[str, str]) -> Iterator[dict[str, str]]:
    left = iter(values.items())
    while part := dict(islice(left, METADATA_COMMIT_KEYS_MAX)):
        yield part


async def _put(metadata: ImageFollower, values: Mapping[str, str]) -> None:
    await metadata.commit(Commit(values, modified={key: metadata.image.modified(key) for key in values}))
