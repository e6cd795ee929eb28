"""The settings of a node that is one of several."""

from __future__ import annotations

from typing import Annotated

import msgspec

Doc = msgspec.Meta


class ClusterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    store: Annotated[
        str,
        Doc(
            description="Where the nodes of a cluster agree, `etcd://HOST:PORT,HOST:PORT`; empty means that the node "
            "is alone and keeps its metadata in files."
        ),
    ] = ""
    name: Annotated[
        str, Doc(description="Tells clusters apart that share a store: what they keep there begins with it.")
    ] = "goqueue"
    listen: Annotated[str, Doc(description="Address for the other nodes, `HOST:PORT`; port 0 picks a free one.")] = (
        "127.0.0.1:7000"
    )
    advertised: Annotated[
        str,
        Doc(description="Address that the other nodes are told to use, `HOST:PORT`; empty means `cluster.listen`."),
    ] = ""
    rack: Annotated[str, Doc(description="Where the node stands; replicas go to different racks if they can.")] = ""
    nodes: Annotated[
        int, Doc(ge=1, le=1_000, description="How many nodes have to be there before a new cluster places its shards.")
    ] = 3
    replication_factor: Annotated[
        int, Doc(ge=1, le=9, description="How many nodes hold each shard of a new cluster.")
    ] = 3
    min_insync_replicas: Annotated[
        int,
        Doc(
            ge=0,
            le=9,
            description="Default of `min.insync.replicas` in a cluster; 0 means 2, or 1 if there is one replica alone.",
        ),
    ] = 0
    session_ms: Annotated[
        int,
        Doc(
            ge=1_000, le=300_000, description="A node that the store has not heard of for this long is taken for dead."
        ),
    ] = 3_000
    lag_ms: Annotated[int, Doc(ge=100, description="A replica that is behind for this long is no longer in sync.")] = (
        10_000
    )
    ca_file: Annotated[str, Doc(description="Certificates of who signs the store's, PEM; empty means no TLS.")] = ""
    cert_file: Annotated[str, Doc(description="This node's certificate for the store, PEM.")] = ""
    key_file: Annotated[str, Doc(description="Its key, PEM.")] = ""
    user: Annotated[str, Doc(description="The user for the store, if it asks for one.")] = ""
    password: Annotated[str, Doc(description="That user's password.")] = ""

    @property
    def min_insync_default(self) -> int:
        """Of topics that do not say."""
        if not self.store:
            return 1
        return self.min_insync_replicas or min(2, self.replication_factor)
