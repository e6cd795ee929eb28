"""Settings that were changed while the node ran: they hold over what the node was started with."""

from __future__ import annotations

import msgspec

from goqueue.base.metadata import Commit
from goqueue.core.cluster.records import ALL_NODES, SETTINGS, ChangedSettings, encode
from goqueue.drive.image_follower import ImageFollower


class DynamicSettings(msgspec.Struct, frozen=True):
    """By Kafka's name. What is set for this node goes before what is set for all nodes."""

    node: dict[str, str] = {}
    cluster: dict[str, str] = {}


def load_dynamic_settings(follower: ImageFollower, node_id: int) -> DynamicSettings:
    image = follower.image
    return DynamicSettings(dict(image.settings(str(node_id))), dict(image.settings(ALL_NODES)))


async def save_dynamic_settings(follower: ImageFollower, node_id: int, settings: DynamicSettings) -> None:
    """Safe when it returns; `MetadataConflict` if somebody else changed them."""
    before = load_dynamic_settings(follower, node_id)
    puts = {
        SETTINGS + name: encode(ChangedSettings(after))
        for name, was, after in (
            (str(node_id), before.node, settings.node),
            (ALL_NODES, before.cluster, settings.cluster),
        )
        if was != after
    }
    if puts:
        await follower.commit(Commit(puts, modified={key: follower.image.modified(key) for key in puts}))
