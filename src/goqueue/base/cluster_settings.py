"""The settings of a node that is one of several."""

from __future__ import annotations

import re
from typing import Annotated, Literal

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
    rack_file: Annotated[
        str, Doc(description="A file with the rack, read at a start; empty means what `cluster.rack` says.")
    ] = ""
    nearest_replica: Annotated[
        bool,
        Doc(
            description="Whether Kafka's consumers that say where they stand (`client.rack`) read from a replica in "
            "that rack instead of from the leader."
        ),
    ] = True
    nodes: Annotated[
        int, Doc(ge=1, le=1_000, description="How many nodes have to be there before a new cluster places its shards.")
    ] = 3
    replication_factor: Annotated[
        int,
        Doc(
            ge=1,
            le=9,
            description="How many nodes hold each shard of a new cluster, and topics that do not say how many hold "
            "them.",
        ),
    ] = 3
    min_insync_replicas: Annotated[
        int,
        Doc(
            ge=0,
            le=9,
            description="Default of `min.insync.replicas` in a cluster; 0 means 2, or 1 if there is one replica alone.",
        ),
    ] = 0
    unclean_leader_election: Annotated[
        bool,
        Doc(
            description="Default of `unclean.leader.election.enable`: whether a shard gets a leader that lacks "
            "messages, rather than none."
        ),
    ] = False
    balance: Annotated[
        Literal["off", "leaders", "all"],
        Doc(
            description="What is moved without being asked for so that nodes are even: nothing, who leads, or replicas "
            "too."
        ),
    ] = "off"
    balance_by: Annotated[
        Literal["bytes", "traffic"],
        Doc(description="Even by what nodes hold, or by what is written and read there."),
    ] = "traffic"
    balance_interval_ms: Annotated[
        int, Doc(ge=1_000, le=86_400_000, description="How often it is looked whether nodes are even.")
    ] = 60_000
    balance_moves_max: Annotated[
        int, Doc(ge=1, le=100, description="How many shards are moved at once without being asked for.")
    ] = 1
    balance_slack_percent: Annotated[
        int,
        Doc(
            ge=1,
            le=1_000,
            description="How much more than the average a node may have, in percent, before something is moved.",
        ),
    ] = 20
    session_ms: Annotated[
        int,
        Doc(
            ge=1_000, le=300_000, description="A node that the store has not heard of for this long is taken for dead."
        ),
    ] = 3_000
    lag_ms: Annotated[int, Doc(ge=100, description="A replica that is behind for this long is no longer in sync.")] = (
        10_000
    )
    clock_skew_ms: Annotated[
        int,
        Doc(
            ge=0,
            le=60_000,
            description="How far the clocks of two nodes may differ; a new leader takes leases back so much later.",
        ),
    ] = 500
    secret: Annotated[
        str,
        Doc(description="What all nodes know and prove to each other at `cluster.listen`; empty lets everybody in."),
    ] = ""
    secret_file: Annotated[
        str,
        Doc(description="A file with that secret; of several words in it the first is used, and all are accepted."),
    ] = ""
    tls_cert: Annotated[
        str, Doc(description="This node's certificate for `cluster.listen`, PEM; empty means no TLS between nodes.")
    ] = ""
    tls_key: Annotated[str, Doc(description="Its key, PEM.")] = ""
    tls_ca: Annotated[str, Doc(description="Certificates of who signs those of all nodes, PEM.")] = ""
    ca_file: Annotated[str, Doc(description="Certificates of who signs the store's, PEM; empty means no TLS.")] = ""
    cert_file: Annotated[str, Doc(description="This node's certificate for the store, PEM.")] = ""
    key_file: Annotated[str, Doc(description="Its key, PEM.")] = ""
    user: Annotated[str, Doc(description="The user for the store, if it asks for one.")] = ""
    password: Annotated[str, Doc(description="That user's password.")] = ""

    def mistakes(self) -> list[str]:
        found = []
        if self.store and not re.fullmatch(r"etcd://[^/,\s:]+:\d+(,[^/,\s:]+:\d+)*", self.store):
            found.append(f"cluster.store: {self.store!r} is not a store; write it like etcd://a:2379,b:2379")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            found.append("cluster.name: use letters, digits, '.', '_' and '-'")
        if self.store and "off" in (self.listen, self.advertised):
            found.append("cluster.listen and cluster.advertised: the other nodes need an address; write HOST:PORT")
        if self.secret and self.secret_file:
            found.append("cluster.secret and cluster.secret_file: give one of them")
        tls = self.tls_cert, self.tls_key, self.tls_ca
        if any(tls) and not all(tls):
            found.append("cluster.tls_cert, cluster.tls_key and cluster.tls_ca: give all or none")
        if self.nodes < self.replication_factor:
            found.append("cluster.nodes must be at least cluster.replication_factor")
        return found

    @property
    def factor_default(self) -> int:
        """Of topics that do not say. A node alone has one of everything."""
        return self.replication_factor if self.store else 1

    @property
    def min_insync_default(self) -> int:
        """Of topics that do not say."""
        if not self.store:
            return 1
        return self.min_insync_replicas or min(2, self.replication_factor)
