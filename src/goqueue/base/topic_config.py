"""What a topic can be told, under Kafka's names.

`CONFIG_KEYS` is the whole list; the reference page is checked against it. A topic stores only what its owner set
(`overrides`, as text); `resolve` puts that over the node's defaults into the frozen form that code uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from goqueue.base.errors import InvalidConfig
from goqueue.base.limits import BATCH_BYTES_MAX, MIB, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN

Value = int | float | str
HOUR_MS: Final = 3_600_000


class TopicConfig(msgspec.Struct, frozen=True, rename=lambda name: name.replace("_", ".")):
    """A topic's settings, complete."""

    retention_ms: int = 168 * HOUR_MS
    retention_bytes: int = -1
    segment_bytes: int = 64 * MIB
    segment_ms: int = 168 * HOUR_MS
    cleanup_policy: str = "delete"
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = "producer"
    max_message_bytes: int = 16 * MIB
    min_insync_replicas: int = 1
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    delete_retention_ms: int = 24 * HOUR_MS
    min_cleanable_dirty_ratio: float = 0.5
    partitioner: Literal["murmur2", "murmur3"] = "murmur2"

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy


class ConfigKey(msgspec.Struct, frozen=True):
    """One key: how its text is read and what it is for."""

    parse: Callable[[str], Value]
    doc: str


def _whole(low: int, high: int = (1 << 63) - 1) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        number = int(text)
        if not low <= number <= high:
            raise ValueError(f"must be from {low} to {high}")
        return number

    return parse


def _choice(*options: str) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        if text not in options:
            raise ValueError(f"must be one of {', '.join(options)}")
        return text

    return parse


def _ratio(text: str) -> Value:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError("must be from 0 to 1")
    return number


def _policy(text: str) -> Value:
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not set(words) <= {"compact", "delete"}:
        raise ValueError("must be delete, compact, both with a comma between, or nothing")
    return ",".join(words)


CONFIG_KEYS: Final[Mapping[str, ConfigKey]] = {
    "retention.ms": ConfigKey(_whole(-1), "Delete segments older than this; -1 keeps them for ever."),
    "retention.bytes": ConfigKey(
        _whole(-1), "Delete the oldest segments of a partition above this size; -1 has no bound."
    ),
    "segment.bytes": ConfigKey(_whole(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX), "A segment rolls at this size."),
    "segment.ms": ConfigKey(_whole(1), "A segment rolls when its first message is this old."),
    "cleanup.policy": ConfigKey(
        _policy, "`delete` by time and size, `compact` to the last value of each key, or both."
    ),
    "compression.type": ConfigKey(
        _choice("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        "How the broker compresses batches it builds itself (REST); producers' batches pass untouched.",
    ),
    "max.message.bytes": ConfigKey(_whole(1, BATCH_BYTES_MAX), "The largest record batch accepted."),
    "min.insync.replicas": ConfigKey(_whole(1), "In-sync replicas that `acks=all` asks for."),
    "message.timestamp.type": ConfigKey(
        _choice("CreateTime", "LogAppendTime"), "Whose clock stamps messages: the producer's or the broker's."
    ),
    "delete.retention.ms": ConfigKey(_whole(0), "How long compaction keeps tombstones."),
    "min.cleanable.dirty.ratio": ConfigKey(_ratio, "Compact when this share of the log has not been compacted yet."),
    "partitioner": ConfigKey(
        _choice("murmur2", "murmur3"), "The hash that places keys; murmur2 agrees with Kafka's clients."
    ),
}


# Kafka's other topic settings: taken and shown, so that scripts made for Kafka go through, but without effect.
KAFKA_ONLY: Final = frozenset(
    {
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "min.compaction.lag.ms",
        "preallocate",
        "remote.storage.enable",
        "segment.index.bytes",
        "segment.jitter.ms",
        "unclean.leader.election.enable",
    }
)
_KAFKA_ONLY_CHARS_MAX: Final = 1_000


def parse_overrides(given: Mapping[str, object], field: str = "config") -> dict[str, str]:
    """Checks settings as a user sent them and returns them as text; all mistakes are in one `InvalidConfig`."""
    mistakes: dict[str, str] = {}
    parsed: dict[str, str] = {}
    for name, value in given.items():
        try:
            parsed[name] = _parse_one(name, value)
        except ValueError as mistake:
            mistakes[name] = str(mistake)
    if mistakes:
        told = "; ".join(f"{name}: {why}" for name, why in mistakes.items())
        raise InvalidConfig(f"Topic settings are not right: {told}.", field=field, mistakes=mistakes)
    return parsed


def _parse_one(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be text or a number")
    if name in KAFKA_ONLY and len(str(value)) <= _KAFKA_ONLY_CHARS_MAX:
        return str(value)
    key = CONFIG_KEYS.get(name)
    if key is None:
        raise ValueError(f"is unknown; known are {', '.join(sorted(CONFIG_KEYS))}")
    try:
        return str(key.parse(str(value)))
    except ValueError as mistake:
        if "must be" in str(mistake):
            raise
        raise ValueError(f"{str(value)!r} is not a number") from None


def resolve(overrides: Mapping[str, str], defaults: TopicConfig) -> TopicConfig:
    """The complete settings: overrides (already checked) over the node's defaults."""
    known = {name: text for name, text in overrides.items() if name not in KAFKA_ONLY}
    changes = {name.replace(".", "_"): CONFIG_KEYS[name].parse(text) for name, text in known.items()}
    return msgspec.structs.replace(defaults, **changes)


def as_text(config: TopicConfig) -> dict[str, str]:
    """Every setting by its dotted name, as text."""
    return {name: str(value) for name, value in msgspec.to_builtins(config).items()}
