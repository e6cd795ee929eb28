"""The nodes that Kafka's clients are told of: all that live, at the addresses that they gave to the metadata.

A client is told the addresses of the listener that it came by. A node that gave none for that one, because it is of an
earlier version or does not have it, is told at its first. A node that gave none at all is alone: it is where the client
reached it, or at the address that its settings advertise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from goqueue.base.errors import GoQueueError, NotLeader
from goqueue.base.ids import TopicPartition
from goqueue.base.kafka_settings import KafkaSettings
from goqueue.base.settings import parse_address
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import NodeRecord
from goqueue.core.txn.staged import kept_with
from goqueue.drive.per_shard import ShardMap
from goqueue.edge.doors import KAFKA, KAFKA_EXTERNAL
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.wire.codes import FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER

# With these an answer says where the leader is (KIP-951).
MOVED: Final = frozenset({NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH})


class KafkaBroker(msgspec.Struct, frozen=True):
    """A node, as its clients see it."""

    node: int
    host: str
    port: int
    rack: str | None = None


class KafkaBrokers:
    """Asked for every metadata request, so it remembers the nodes until the metadata changes."""

    def __init__(self, image: Image, shards: ShardMap, settings: KafkaSettings) -> None:
        self.node_id = shards.node
        self._image = image
        self._shards = shards
        advertised = {KAFKA: settings.advertised, KAFKA_EXTERNAL: settings.external_advertised}
        self._advertised = {name: parse_address(address) for name, address in advertised.items() if address}
        self._as_of = -1
        self._living: frozenset[int] = frozenset()
        self._told: Mapping[int, KafkaBroker] = {}
        self._outside: Mapping[int, KafkaBroker] = {}
        self._alive: frozenset[int] = frozenset()

    def _look(self) -> None:
        if self._as_of != self._image.revision:
            self._as_of = self._image.revision
            nodes = self._image.nodes()
            self._living = frozenset({self.node_id, *nodes})
            self._told = _brokers(nodes, KAFKA)
            self._outside = {**self._told, **_brokers(nodes, KAFKA_EXTERNAL)}
            self._alive = frozenset(self._told) or frozenset({self.node_id})

    # --- nodes -----------------------------------------------------------------------------------------------

    @property
    def alive(self) -> frozenset[int]:
        """Those that clients can go to."""
        self._look()
        return self._alive

    def offline(self, replicas: Iterable[int]) -> list[int]:
        """Those of them that do not live."""
        self._look()
        return [node for node in replicas if node not in self._living]

    @property
    def is_alone(self) -> bool:
        """This node is no part of a cluster."""
        self._look()
        return not self._told

    @property
    def controller(self) -> int:
        """Every node takes what a client may think is for the controller, so while there is none it is this one."""
        chosen = self._image.controller
        return self.node_id if chosen is None or chosen.node not in self.alive else chosen.node

    def all(self, call: KafkaCall) -> list[KafkaBroker]:
        return [self._at(node, call) for node in sorted(self.alive)]

    def _at(self, node: int, call: KafkaCall) -> KafkaBroker:
        listener = call.peer.listener
        known = (self._outside if listener == KAFKA_EXTERNAL else self._told).get(node)
        if known is None:
            return KafkaBroker(node, *(self._advertised.get(listener) or call.local_address))
        return known if known.host else msgspec.structs.replace(known, host=call.local_address[0])

    # --- who leads -------------------------------------------------------------------------------------------

    def of_group(self, group: str, call: KafkaCall) -> KafkaBroker:
        """The node that keeps a group; `NotLeader` if none does, or none that lives."""
        return self._require(self._shards.leader_of_id(group), call)

    def of_transactional_id(self, name: str, call: KafkaCall) -> KafkaBroker:
        return self._require(self._shards.leader_of_id(kept_with(name)), call)

    def of_partition(self, at: TopicPartition, call: KafkaCall) -> KafkaBroker:
        return self._require(self._shards.leader_of(at), call)

    def _require(self, node: int, call: KafkaCall) -> KafkaBroker:
        if node not in self.alive:
            raise NotLeader(f"Node {node} is not there at the moment; try again.")
        return self._at(node, call)

    # --- for who asked the wrong node ------------------------------------------------------------------------

    def leader_and_epoch(self, at: TopicPartition) -> tuple[int, int]:
        """Where a client that was refused should go (KIP-951); -1 and -1 if nobody knows."""
        try:
            shard = self._shards.of_partition(at)
            return self._shards.leader(shard), self._image.epoch(shard)
        except GoQueueError:
            return -1, -1

    def endpoints(self, nodes: Iterable[int], call: KafkaCall) -> list[KafkaBroker]:
        """Of those that live."""
        return [self._at(node, call) for node in sorted(self.alive.intersection(nodes))]


def _brokers(nodes: Mapping[int, NodeRecord], listener: str) -> dict[int, KafkaBroker]:
    """Those of them that have it."""
    named = {node: record for node, record in nodes.items() if listener in record.addresses}
    return {node: _broker(node, record.addresses[listener], record.rack) for node, record in named.items()}


def _broker(node: int, address: str, rack: str) -> KafkaBroker:
    host, _, port = address.rpartition(":")
    return KafkaBroker(node, host.strip("[]"), int(port), rack or None)
