"""Settings of topics: ours, and all that Kafka has, with those marked that have no effect here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from goqueue.base.access import AclOperation, ResourceKind
from goqueue.base.commands import Caller
from goqueue.base.errors import InternalTopic
from goqueue.base.names import INTERNAL
from goqueue.base.topic_config import CONFIG_KEYS, KAFKA_ONLY, TopicConfig, as_text
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.config_entries import (
    CLUSTER_SOURCE,
    DEFAULT_SOURCE,
    INT,
    LIST,
    NODE_SOURCE,
    STATIC_SOURCE,
    TOPIC_SOURCE,
    Changes,
    ConfigEntry,
    Synonym,
    guessed_type,
)
from goqueue.edge.kafka.operations import Rights
from goqueue.service.front import Front
from goqueue.service.node_config import TOPIC_DEFAULTS, NodeConfig
from goqueue.service.topics import Topics

WITHOUT_EFFECT: Final = "Taken and shown for the sake of Kafka's tools; without effect here."
LISTS: Final = frozenset(
    {"cleanup.policy", "follower.replication.throttled.replicas", "leader.replication.throttled.replicas"}
)
_INTS: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "index.interval.bytes",
        "max.message.bytes",
        "min.insync.replicas",
        "segment.bytes",
        "segment.index.bytes",
    }
)
_BROKER_NAMES: Final[Mapping[str, str]] = {topic_name: name for name, topic_name in TOPIC_DEFAULTS.items()}
_BUILT_IN: Final = as_text(TopicConfig())


class TopicConfigs:
    def __init__(self, topics: Front[Topics], node: Front[NodeConfig], rights: Rights) -> None:
        self._rights = rights
        self._topics = topics
        self._node = node

    def names(self, caller: Caller) -> Iterable[str]:
        return [topic.name for topic in self._topics.by(caller).everything()]

    def entries(self, name: str, call: KafkaCall) -> list[ConfigEntry]:
        view = self._topics.by(call.caller).settings_of(name)
        node = self._node.by(call.caller)
        found = [_entry(node, key, value, view.overrides) for key, value in view.config.items() if key in CONFIG_KEYS]
        for key, known in KAFKA_ONLY.items():
            value = view.overrides.get(key, known.default)
            if value is not None:
                found.append(_entry(node, key, value, view.overrides))
        return found

    async def alter(self, caller: Caller, name: str, changes: Changes, *, is_whole: bool, only_check: bool) -> None:
        self._rights.check(caller, AclOperation.ALTER_CONFIGS, ResourceKind.TOPIC, name)
        overrides = self._topics.by(caller).settings_of(name).overrides
        if name in INTERNAL:
            raise InternalTopic(
                f"The broker keeps its own books in {name!r}; its settings stay as they are.", field="topic"
            )
        known = {key: value for key, value in changes.items() if value is not None or key in overrides}
        whole: Changes = dict.fromkeys(overrides) if is_whole else {}
        if only_check:
            self._topics.by(caller).check_config(known)
        else:
            await self._topics.by(caller).alter(name, {**whole, **known}, None)


def _entry(node: NodeConfig, key: str, value: str, overrides: Mapping[str, str]) -> ConfigEntry:
    synonyms = tuple(_synonyms(node, key, overrides))
    return ConfigEntry(
        name=key,
        value=value,
        source=synonyms[0].source if synonyms else DEFAULT_SOURCE,
        type=LIST if key in LISTS else INT if key in _INTS else guessed_type(value),
        synonyms=synonyms,
        doc=CONFIG_KEYS[key].doc if key in CONFIG_KEYS else WITHOUT_EFFECT,
    )


def _synonyms(node: NodeConfig, key: str, overrides: Mapping[str, str]) -> Iterable[Synonym]:
    if key in overrides:
        yield Synonym(key, overrides[key], TOPIC_SOURCE)
    broker_name = _BROKER_NAMES.get(key)
    if broker_name is not None:
        yield from node_synonyms(broker_name, node)


def node_synonyms(name: str, node: NodeConfig) -> Iterable[Synonym]:
    """The values of one of the node's defaults, from the one that holds to the built-in one."""
    for values, source in ((node.dynamic.node, NODE_SOURCE), (node.dynamic.cluster, CLUSTER_SOURCE)):
        if name in values:
            yield Synonym(name, values[name], source)
    static, built_in = node.static[name], _BUILT_IN[TOPIC_DEFAULTS[name]]
    if static != built_in:
        yield Synonym(name, static, STATIC_SOURCE)
    yield Synonym(name, built_in, DEFAULT_SOURCE)
