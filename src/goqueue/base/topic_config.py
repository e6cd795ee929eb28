"""What a topic can be told, under Kafka's names.

`CONFIG_KEYS` is the whole list; the reference page is checked against it. A topic stores only what its owner set
(`overrides`, as text); `resolve` puts that over the node's defaults into the frozen form that code uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from goqueue.base.errors import InvalidConfig, InvalidName
from goqueue.base.limits import BATCH_BYTES_MAX, MIB, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from goqueue.base.names import check_name

Value = int | float | str
HOUR_MS: Final = 3_600_000
UNBOUNDED_MS: Final = (1 << 63) - 1
DEAD_LETTER_TOPIC: Final = "queue.dead.letter.topic"  # the setting that names one
_TEXT_CHARS_MAX: Final = 64 * 1024


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
    unclean_leader_election_enable: Literal["true", "false"] = "false"
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    message_timestamp_before_max_ms: int = UNBOUNDED_MS
    message_timestamp_after_max_ms: int = HOUR_MS
    delete_retention_ms: int = 24 * HOUR_MS
    min_cleanable_dirty_ratio: float = 0.5
    partitioner: Literal["murmur2", "murmur3"] = "murmur2"
    queue_lease_ms: int = 30_000
    queue_max_failures: int = 3
    queue_max_deliveries: int = 0
    queue_retry_ms: int = 1_000
    queue_retry_max_ms: int = 60_000
    queue_dead_letter_topic: str = ""
    queue_expired_dead_letter: Literal["true", "false"] = "false"
    queue_max_redrives: int = 3
    queue_order: Literal["none", "key"] = "none"
    queue_lanes: Literal["weighted", "strict"] = "weighted"
    queue_delay_ms: int = 0
    queue_delay_headers: Literal["true", "false"] = "true"
    queue_wait_ms: int = 0
    records_check: Literal["header", "full"] = "header"
    trace: str = "default"
    schema_validation: Literal["none", "header", "prefix", "latest"] = "none"
    schema_key_validation: Literal["none", "header", "prefix", "latest"] = "none"
    sqs_attributes: str = ""

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def validates(self) -> bool:
        return self.schema_validation != "none" or self.schema_key_validation != "none"

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


def _topic_or_none(text: str) -> Value:
    if text:
        try:
            check_name(text)
        except InvalidName:
            raise ValueError("must be a topic's name, or empty") from None
    return text


def _text(text: str) -> Value:
    if len(text) > _TEXT_CHARS_MAX:
        raise ValueError(f"must be at most {_TEXT_CHARS_MAX} characters")
    return text


def _ratio(text: str) -> Value:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError("must be from 0 to 1")
    return number


def _trace(text: str) -> Value:
    if text in ("default", "on", "off"):
        return text
    try:
        return str(_ratio(text))
    except ValueError:
        raise ValueError("must be default, on, off or a rate from 0 to 1") from None


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
    "unclean.leader.election.enable": ConfigKey(
        _choice("true", "false"),
        "In a cluster: whether partitions get a leader that lacks acknowledged messages, rather than none.",
    ),
    "message.timestamp.type": ConfigKey(
        _choice("CreateTime", "LogAppendTime"), "Whose clock stamps messages: the producer's or the broker's."
    ),
    "message.timestamp.before.max.ms": ConfigKey(
        _whole(0), "How far a producer's time may be behind the broker's; older messages are refused."
    ),
    "message.timestamp.after.max.ms": ConfigKey(
        _whole(0), "How far a producer's time may be ahead of the broker's; later messages are refused."
    ),
    "delete.retention.ms": ConfigKey(_whole(0), "How long compaction keeps tombstones."),
    "min.cleanable.dirty.ratio": ConfigKey(_ratio, "Compact when this share of the log has not been compacted yet."),
    "partitioner": ConfigKey(
        _choice("murmur2", "murmur3"), "The hash that places keys; murmur2 agrees with Kafka's clients."
    ),
    "queue.lease.ms": ConfigKey(
        _whole(0, 12 * HOUR_MS), "How long a message that was handed out stays with its consumer."
    ),
    "queue.max.failures": ConfigKey(
        _whole(0, 1_000), "Failed attempts after which a message goes to the dead letters; 0 never."
    ),
    "queue.max.deliveries": ConfigKey(
        _whole(0, 1_000), "Times that a message is handed out before it goes to the dead letters; 0 has no bound."
    ),
    "queue.retry.ms": ConfigKey(_whole(0, 12 * HOUR_MS), "Wait after the first failure; each further one doubles it."),
    "queue.retry.max.ms": ConfigKey(_whole(0, 12 * HOUR_MS), "The longest wait after a failure."),
    DEAD_LETTER_TOPIC: ConfigKey(_topic_or_none, "Where dead letters go; empty means `{topic}.dlq`."),
    "queue.expired.dead.letter": ConfigKey(
        _choice("true", "false"), "Whether messages whose time to live passed go to the dead letters."
    ),
    "queue.max.redrives": ConfigKey(
        _whole(0, 1_000), "Times that a message may come back from the dead letters into this topic; 0 has no bound."
    ),
    "queue.order": ConfigKey(
        _choice("none", "key"),
        "`key` hands out messages of one key in order: a run to one consumer, nothing more of the key meanwhile.",
    ),
    "queue.lanes": ConfigKey(
        _choice("weighted", "strict"), "How priorities share the queue: by weight, or the higher always first."
    ),
    "queue.delay.ms": ConfigKey(
        _whole(0, 12 * HOUR_MS), "Delay of messages that are published without one, at REST's and SQS's doors."
    ),
    "queue.delay.headers": ConfigKey(
        _choice("true", "false"), "Whether batches are searched for records that ask for a delay in their headers."
    ),
    "queue.wait.ms": ConfigKey(_whole(0, 20_000), "How long SQS's receive waits for a message if it does not say."),
    "records.check": ConfigKey(
        _choice("header", "full"),
        "What is checked of a batch that a Kafka producer sends: its header and checksum, or also that all records in "
        "it can be read, which costs as much as decoding it.",
    ),
    "trace": ConfigKey(
        _trace,
        "Which messages are traced: `default` as `traces.sample_rate` says, `on` all, a rate that share, `off` none.",
    ),
    "schema.validation": ConfigKey(
        _choice("none", "header", "prefix", "latest"),
        "Which schema a value must fit to be stored: none, the one that the header `schema-id` names, that of "
        "Confluent's prefix, or the latest of the topic's subject.",
    ),
    "schema.key.validation": ConfigKey(
        _choice("none", "header", "prefix", "latest"), "The same for keys; their header is `schema-key-id`."
    ),
    "sqs.attributes": ConfigKey(_text, "What SQS's door keeps about a queue, as JSON."),
}


class KafkaOnly(msgspec.Struct, frozen=True):
    """A setting of Kafka's that has no effect here: its default there, and how its text is read.

    Without a default it is one that Kafka itself gave up.
    """

    default: str | None
    parse: Callable[[str], Value]


# Kafka's other topic settings: taken and shown, so that scripts made for Kafka go through, but without effect.
_LONG_MAX: Final = str((1 << 63) - 1)
_FLAG: Final = _choice("true", "false")
KAFKA_ONLY: Final[Mapping[str, KafkaOnly]] = {
    "compression.gzip.level": KafkaOnly("-1", _whole(-1, 9)),
    "compression.lz4.level": KafkaOnly("9", _whole(1, 17)),
    "compression.zstd.level": KafkaOnly("3", _whole(-131072, 22)),
    "file.delete.delay.ms": KafkaOnly("60000", _whole(0)),
    "flush.messages": KafkaOnly(_LONG_MAX, _whole(1)),
    "flush.ms": KafkaOnly(_LONG_MAX, _whole(0)),
    "follower.replication.throttled.replicas": KafkaOnly("", _text),
    "index.interval.bytes": KafkaOnly("4096", _whole(0, (1 << 31) - 1)),
    "leader.replication.throttled.replicas": KafkaOnly("", _text),
    "local.retention.bytes": KafkaOnly("-2", _whole(-2)),
    "local.retention.ms": KafkaOnly("-2", _whole(-2)),
    "max.compaction.lag.ms": KafkaOnly(_LONG_MAX, _whole(1)),
    "message.downconversion.enable": KafkaOnly(None, _FLAG),
    "message.format.version": KafkaOnly(None, _text),
    "message.timestamp.difference.max.ms": KafkaOnly(None, _whole(0)),
    "min.compaction.lag.ms": KafkaOnly("0", _whole(0)),
    "preallocate": KafkaOnly("false", _FLAG),
    "remote.log.copy.disable": KafkaOnly("false", _FLAG),
    "remote.log.delete.on.disable": KafkaOnly("false", _FLAG),
    "remote.storage.enable": KafkaOnly("false", _FLAG),
    "segment.index.bytes": KafkaOnly("10485760", _whole(4, (1 << 31) - 1)),
    "segment.jitter.ms": KafkaOnly("0", _whole(0)),
}


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
        told = "; ".join(f"{name}: {error}" for name, error in mistakes.items())
        raise InvalidConfig(f"Topic settings are not right: {told}.", field=field, mistakes=mistakes)
    return parsed


def _parse_one(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be text or a number")
    key = CONFIG_KEYS.get(name) or KAFKA_ONLY.get(name)
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
