"""Settings of the node under their own names, and under Kafka's where Kafka's tools look for them.

What topics have that leave something unsaid can be changed while the node runs; everything else is read-only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from goqueue.base.access import AclOperation
from goqueue.base.commands import Caller
from goqueue.base.errors import InvalidField
from goqueue.base.settings import Settings, setting_keys
from goqueue.edge.doors import DoorAddresses
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.config_entries import (
    CLUSTER_SOURCE,
    DEFAULT_SOURCE,
    INT,
    LIST,
    PASSWORD,
    STATIC_SOURCE,
    Changes,
    ConfigEntry,
    Synonym,
    guessed_type,
)
from goqueue.edge.kafka.config_topics import node_synonyms
from goqueue.edge.kafka.operations import Rights
from goqueue.service.front import Front
from goqueue.service.node_config import TOPIC_DEFAULTS, NodeConfig, Scope
from goqueue.service.topics import Topics

REST_ADDRESS: Final = "goqueue.rest.address"  # where the node's REST door is, for clients that came through this one
_SECRETS: Final = frozenset({"cluster.password", "cluster.secret", "metrics.otlp_headers", "traces.otlp_headers"})
_INTS: Final = frozenset({"log.segment.bytes", "message.max.bytes", "min.insync.replicas", "node.id", "num.partitions"})
# Kafka's names of settings that are ours too.
_ALIASES: Final = {
    "group.consumer.heartbeat.interval.ms": "groups.heartbeat_ms",
    "group.consumer.max.session.timeout.ms": "groups.session_ms_max",
    "group.consumer.max.size": "groups.members_max",
    "group.consumer.min.session.timeout.ms": "groups.session_ms_min",
    "group.consumer.session.timeout.ms": "groups.session_ms",
    "group.initial.rebalance.delay.ms": "groups.initial_rebalance_delay_ms",
    "group.max.session.timeout.ms": "groups.session_ms_max",
    "group.max.size": "groups.members_max",
    "group.min.session.timeout.ms": "groups.session_ms_min",
    "log.dirs": "data.dir",
    "log.index.interval.bytes": "log.index_interval_bytes",
    "log.retention.check.interval.ms": "log.cleanup_interval_ms",
    "max.connections": "kafka.connections_max",
    "num.partitions": "topics.partitions",
    "transaction.max.timeout.ms": "transactions.timeout_ms_max",
    "transactional.id.expiration.ms": "transactions.idle_ms",
}


def check_node(name: str, node_id: int) -> None:
    if not name.lstrip("-").isdecimal():
        raise InvalidField(f"Node id must be an integer, but it is: {name[:40]}", field="resource_name")
    if name != str(node_id):
        raise InvalidField(f"Unexpected broker id, expected {node_id}, but received {name[:40]}", field="resource_name")


class BrokerConfigs:
    def __init__(
        self, topics: Front[Topics], settings: Settings, doors: DoorAddresses, node: Front[NodeConfig], rights: Rights
    ) -> None:
        self._rights = rights
        self._topics = topics
        self._settings = settings
        self._doors = doors
        self._node = node

    def names(self, caller: Caller) -> Iterable[str]:
        return (
            [str(self._settings.node.id)] if self._rights.allows_cluster(caller, AclOperation.DESCRIBE_CONFIGS) else []
        )

    def entries(self, name: str, call: KafkaCall) -> list[ConfigEntry]:
        """Without a name: what was set for all nodes."""
        self._rights.check_cluster(call.caller, AclOperation.DESCRIBE_CONFIGS)
        if not name:
            return [
                self._cluster_entry(key, value) for key, value in self._node.by(call.caller).dynamic.cluster.items()
            ]
        check_node(name, self._settings.node.id)
        return [*self._fixed(call), *self._aliases(), *self._defaults(call.caller), *self._own()]

    def _cluster_entry(self, key: str, value: str) -> ConfigEntry:
        synonyms = (Synonym(key, value, CLUSTER_SOURCE),)
        return ConfigEntry(name=key, value=value, source=CLUSTER_SOURCE, type=_type(key, value), synonyms=synonyms)

    def _fixed(self, call: KafkaCall) -> Iterable[ConfigEntry]:
        kafka = self._settings.kafka
        fixed = {
            "advertised.listeners": _listeners(
                kafka.advertised or kafka.listen, kafka.external_advertised or kafka.external_listen
            ),
            "auto.create.topics.enable": str(self._topics.by(call.caller).kafka_may_create).lower(),
            "broker.id": str(self._settings.node.id),
            "default.replication.factor": str(self._settings.cluster.factor_default),
            "group.consumer.migration.policy": "bidirectional",
            "listeners": _listeners(kafka.listen, kafka.external_listen),
            "offsets.retention.minutes": str(self._settings.groups.offsets_retention_ms // 60_000),
            REST_ADDRESS: self._doors.rest_url(call.local_address[0]),
        }
        for key, value in fixed.items():
            yield ConfigEntry(name=key, value=value, source=STATIC_SOURCE, type=_type(key, value or ""), read_only=True)

    def _aliases(self) -> Iterable[ConfigEntry]:
        known = {entry.name: entry for entry in self._own()}
        for key, own in _ALIASES.items():
            value = known[own].value
            yield ConfigEntry(
                name=key,
                value=value,
                source=known[own].source,
                type=_type(key, value or ""),
                read_only=True,
                doc=f"The node's setting `{own}`.",
            )

    def _defaults(self, caller: Caller) -> Iterable[ConfigEntry]:
        for key, topic_key in TOPIC_DEFAULTS.items():
            synonyms = tuple(node_synonyms(key, self._node.by(caller)))
            first = synonyms[0]
            doc = f"What topics have that do not set `{topic_key}`."
            kind = _type(key, first.value)
            yield ConfigEntry(name=key, value=first.value, source=first.source, type=kind, synonyms=synonyms, doc=doc)

    def _own(self) -> Iterable[ConfigEntry]:
        for key in setting_keys():
            value = str(getattr(getattr(self._settings, key.section), key.name))
            default = str(key.default)
            synonyms = [Synonym(key.dotted, value, STATIC_SOURCE)] if value != default else []
            synonyms.append(Synonym(key.dotted, default, DEFAULT_SOURCE))
            secret = key.dotted in _SECRETS
            yield ConfigEntry(
                name=key.dotted,
                value=value,
                source=synonyms[0].source,
                type=PASSWORD if secret else guessed_type(value),
                read_only=True,
                sensitive=secret,
                synonyms=tuple(synonyms),
                doc=key.doc,
            )

    async def alter(self, caller: Caller, name: str, changes: Changes, *, is_whole: bool, only_check: bool) -> None:
        self._rights.check_cluster(caller, AclOperation.ALTER_CONFIGS)
        scope: Scope = "node" if name else "cluster"
        if name:
            check_node(name, self._settings.node.id)
        self._node.by(caller).check(changes)
        if not only_check:
            await self._node.by(caller).alter(scope, changes, is_whole)


def _listeners(first: str, external: str) -> str:
    return f"PLAINTEXT://{first}" + ("" if external == "off" else f",EXTERNAL://{external}")


def _type(key: str, value: str) -> int:
    if key in ("log.cleanup.policy", "listeners", "advertised.listeners", "log.dirs"):
        return LIST
    return INT if key in _INTS else guessed_type(value)
