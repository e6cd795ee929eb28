"""Who this node is: it takes its place in the metadata when it starts. The first start makes id and shards."""

from __future__ import annotations

import msgspec

from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.metadata import ABSENT, Commit
from goqueue.core.cluster.placement import shards_for
from goqueue.core.cluster.records import CLUSTER, NODES, ClusterRecord, NodeRecord, encode
from goqueue.drive.image_follower import ImageFollower


class Identity(msgspec.Struct, frozen=True):
    node_id: int
    cluster_id: str = ""


async def join(follower: ImageFollower, entropy: Entropy, node_id: int, version: str, shards: int) -> Identity:
    """`FewerShards` or `WrongNodeId` if the data is another node's. The node is known until its session ends."""
    image = follower.image
    if (wanted := shards_for(image, node_id, shards)) is not None:
        await follower.commit(wanted)
    if not image.cluster_id:
        cluster = encode(ClusterRecord(new_uuid(entropy)))
        await follower.commit(Commit({CLUSTER: cluster}, modified={CLUSTER: image.modified(CLUSTER)}))
    session = await follower.store.open_session()
    me = encode(NodeRecord(version, new_uuid(entropy)))
    key = f"{NODES}{node_id}"
    await follower.commit(Commit({key: me}, modified={key: ABSENT}, session=session.id))
    return Identity(node_id, image.cluster_id)
