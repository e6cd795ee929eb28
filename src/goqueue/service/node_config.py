"""Settings of the node that can be changed while it runs: what topics have that leave something unsaid.

All nodes follow what is set for all: whoever changes it waits until those that live know it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from goqueue.base.errors import InvalidConfig, InvalidField, MetadataConflict
from goqueue.base.metadata import Change
from goqueue.base.topic_config import TopicConfig, as_text, parse_overrides, resolve
from goqueue.core.cluster.records import SETTINGS
from goqueue.drive.dynamic_settings import DynamicSettings, load_dynamic_settings, save_dynamic_settings
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.topic_table import TopicTable

Scope: TypeAlias = Literal["node", "cluster"]
_TRIES: Final = 10
_AGAIN_S: Final = 0.02  # until the image has heard of what somebody else wrote

# Kafka's names of the node's defaults, and the topic setting that each stands behind.
TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    "compression.type": "compression.type",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleanup.policy": "cleanup.policy",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}


class NodeConfig:
    """The verbs."""

    def __init__(
        self,
        metadata: ImageFollower,
        node_id: int,
        table: TopicTable,
        static: TopicConfig,
        announce: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`announce` returns when the other nodes have heard of what is in the metadata."""
        self._metadata = metadata
        self._node_id = node_id
        self._table = table
        self._static = static
        self._announce = announce
        self._changing = asyncio.Lock()
        self.dynamic = DynamicSettings()

    def load(self) -> None:
        """Before topics are opened, and whenever somebody changed something."""
        self.dynamic = load_dynamic_settings(self._metadata, self._node_id)
        self._apply()

    def metadata_changed(self, change: Change) -> None:
        if any(entry.key.startswith(SETTINGS) for entry in change.puts):
            self.load()

    def _apply(self) -> None:
        chosen = {**self.dynamic.cluster, **self.dynamic.node}
        overrides = {TOPIC_DEFAULTS[name]: text for name, text in chosen.items() if name in TOPIC_DEFAULTS}
        self._table.set_defaults(resolve(overrides, self._static))

    @property
    def static(self) -> dict[str, str]:
        """What the node was started with, by Kafka's name."""
        text = as_text(self._static)
        return {name: text[topic_name] for name, topic_name in TOPIC_DEFAULTS.items()}

    def check(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """The values as they will be kept, or an error that says what is wrong."""
        for name in changes:
            if name not in TOPIC_DEFAULTS:
                raise InvalidField(f"Cannot update these configs dynamically: {name}. Start the node with another.")
        given = {TOPIC_DEFAULTS[name]: text for name, text in changes.items() if text is not None}
        try:
            parsed = parse_overrides(given)
        except InvalidConfig as error:
            raise InvalidField(error.message) from None
        return {name: parsed[TOPIC_DEFAULTS[name]] for name, text in changes.items() if text is not None}

    async def alter(self, scope: Scope, changes: Mapping[str, str | None], is_whole: bool) -> None:
        """Durable, and known to all nodes, when it returns. None takes a value back; `is_whole` takes back what is not
        named."""
        values = self.check(changes)
        async with self._changing:
            await self._save(scope, changes, values, is_whole)
        if self._announce is not None:
            await self._announce()

    async def _save(
        self, scope: Scope, changes: Mapping[str, str | None], values: Mapping[str, str], is_whole: bool
    ) -> None:
        """On what holds when it is written: another node may change something at the same time."""
        for left in reversed(range(_TRIES)):
            before = {} if is_whole else getattr(self.dynamic, scope)
            after = {**{name: text for name, text in before.items() if name not in changes}, **values}
            try:
                await save_dynamic_settings(self._metadata, self._node_id, replace(self.dynamic, **{scope: after}))
                return
            except MetadataConflict:
                if not left:
                    raise
                await asyncio.sleep(_AGAIN_S)

    def set_log_levels(self, levels: Mapping[str | None, int]) -> None:
        """Until the next start; None is the logger above all others."""
        for logger, level in levels.items():
            logging.getLogger(logger).setLevel(level)
