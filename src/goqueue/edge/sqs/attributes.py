"""Queue attributes: what AWS allows, and where each lives in a topic's settings.

Those that the broker acts on are settings of the topic, so every door sees and changes the same ones. The rest (policy,
encryption, FIFO's switches, tags) is kept as JSON in the topic's setting `sqs.attributes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from goqueue.base.commands import DeduplicationScope
from goqueue.base.decoders import from_json
from goqueue.base.ids import Millis
from goqueue.base.limits import KIB, MIB
from goqueue.drive.topic_table import Topic
from goqueue.edge.sqs.errors import SqsError
from goqueue.edge.sqs.names import FIFO

HEADROOM: Final = 64 * KIB  # a batch's frame, headers that the broker adds, and what a dead letter gets besides
MESSAGE_BYTES_MAX: Final = 1 * MIB
RETENTION_S_MAX: Final = 1_209_600


class AttributeRange(msgspec.Struct, frozen=True):
    low: int
    high: int


RANGES: Final = {
    "DelaySeconds": AttributeRange(0, 900),
    "MaximumMessageSize": AttributeRange(1_024, MESSAGE_BYTES_MAX),
    "MessageRetentionPeriod": AttributeRange(60, RETENTION_S_MAX),
    "ReceiveMessageWaitTimeSeconds": AttributeRange(0, 20),
    "VisibilityTimeout": AttributeRange(0, 43_200),
    "KmsDataKeyReusePeriodSeconds": AttributeRange(60, 86_400),
}
CHOICES: Final = {
    "FifoQueue": ("true", "false"),
    "ContentBasedDeduplication": ("true", "false"),
    "SqsManagedSseEnabled": ("true", "false"),
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}
TEXTS: Final = frozenset({"Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"})
FIFO_ONLY: Final = frozenset({"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"})
READ_ONLY: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
    "QueueArn",
)
SETTABLE: Final = frozenset({*RANGES, *CHOICES, *TEXTS})
KNOWN: Final = frozenset({*SETTABLE, *READ_ONLY})
DEFAULTS: Final = {
    "DelaySeconds": "0",
    "MaximumMessageSize": str(MESSAGE_BYTES_MAX),
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "VisibilityTimeout": "30",
}
_FIFO_DEFAULTS: Final = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the setting `sqs.attributes` holds."""

    modified_s: int = 0
    attributes: dict[str, str] = {}
    tags: dict[str, str] = {}
    purged: int = 0  # deduplication ids of messages up to this sequence number are forgotten


_decode = msgspec.json.Decoder(Kept).decode


def kept_of(topic: Topic) -> Kept:
    text = topic.config.sqs_attributes
    try:
        return _decode(text) if text else Kept()
    except msgspec.DecodeError:
        return Kept()  # somebody wrote something else there


def kept_text(kept: Kept) -> str:
    return msgspec.json.encode(kept).decode()


def is_fifo(topic: Topic) -> bool:
    return topic.config.queue_order == "key" and topic.name.endswith(FIFO)


def deduplication_scope(topic: Topic) -> DeduplicationScope:
    """Which messages of a FIFO queue share their deduplication ids. A purge makes every id new."""
    kept = kept_of(topic)
    by_group = kept.attributes.get("DeduplicationScope") == "messageGroup"
    return DeduplicationScope(topic.name, by_group, kept.purged)


# --- in -------------------------------------------------------------------------------------------------


def check_attributes(given: Mapping[str, str], fifo: bool) -> dict[str, str]:
    """The values in their usual form; the two policies are checked elsewhere, as they speak of other queues."""
    values = {name: _check(name, value, fifo) for name, value in given.items()}
    if values.get("KmsMasterKeyId") and values.get("SqsManagedSseEnabled") == "true":
        message = "You can use one type of server-side encryption (SSE) at one time."
        raise SqsError("InvalidAttributeValue", f"{message} You can either enable KMS SSE or SQS SSE.")
    return values


def check_throughput(values: Mapping[str, str]) -> None:
    """The two switches of FIFO's high throughput, as they would be."""
    if values.get("FifoThroughputLimit") == "perMessageGroupId" and values.get("DeduplicationScope") != "messageGroup":
        reason = "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup."
        raise invalid_attribute("FifoThroughputLimit", reason)


def _check(name: str, value: str, fifo: bool) -> str:
    if name not in SETTABLE:
        raise SqsError("InvalidAttributeName", f"Unknown Attribute {name[:100]}.")
    if name in FIFO_ONLY and not fifo:
        if name in ("DeduplicationScope", "FifoThroughputLimit"):
            raise SqsError("InvalidAttributeName", f"You can specify the {name} only when FifoQueue is set to true.")
        raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    if name in RANGES:
        return _number(name, value, RANGES[name])
    if name in CHOICES:
        chosen = value.lower() if CHOICES[name] == ("true", "false") else value
        if chosen not in CHOICES[name]:
            raise invalid_attribute(name)
        return chosen
    if name == "Policy" and value:
        _check_json(name, value)
    return value


def _number(name: str, value: str, allowed: AttributeRange) -> str:
    number = int(value) if value.strip().isdecimal() and len(value) < 12 else -1
    if not allowed.low <= number <= allowed.high:
        raise invalid_attribute(name)
    return str(number)


def _check_json(name: str, value: str) -> None:
    try:
        from_json(value, dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise invalid_attribute(name) from None


def invalid_attribute(name: str, reason: str = "") -> SqsError:
    message = f" Reason: {reason}" if reason else ""
    return SqsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.{message}")


def config_of(values: Mapping[str, str]) -> dict[str, object]:
    """The topic settings that carry these attributes."""
    config: dict[str, object] = {}
    if "VisibilityTimeout" in values:
        config["queue.lease.ms"] = int(values["VisibilityTimeout"]) * 1000
    if "DelaySeconds" in values:
        config["queue.delay.ms"] = int(values["DelaySeconds"]) * 1000
    if "ReceiveMessageWaitTimeSeconds" in values:
        config["queue.wait.ms"] = int(values["ReceiveMessageWaitTimeSeconds"]) * 1000
    if "MaximumMessageSize" in values:
        config["max.message.bytes"] = int(values["MaximumMessageSize"]) + HEADROOM
    if "MessageRetentionPeriod" in values:
        retention_ms = int(values["MessageRetentionPeriod"]) * 1000
        config["retention.ms"] = retention_ms
        config["segment.ms"] = max(10_000, retention_ms // 10)  # retention deletes whole segments
    return config


KEPT: Final = frozenset({"Policy", "RedriveAllowPolicy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", *CHOICES})


# --- out ------------------------------------------------------------------------------------------------


def settled(topic: Topic) -> dict[str, str]:
    """Every attribute that can be set, as it holds, RedrivePolicy aside."""
    config, kept = topic.config, kept_of(topic)
    retention_s = config.retention_ms // 1000 if config.retention_ms >= 0 else RETENTION_S_MAX
    shown = {
        "VisibilityTimeout": str(config.queue_lease_ms // 1000),
        "DelaySeconds": str(config.queue_delay_ms // 1000),
        "MaximumMessageSize": str(message_bytes_max(topic)),
        "MessageRetentionPeriod": str(retention_s),
        "ReceiveMessageWaitTimeSeconds": str(config.queue_wait_ms // 1000),
        "SqsManagedSseEnabled": "false",
    }
    if is_fifo(topic):
        shown |= _FIFO_DEFAULTS
    shown |= kept.attributes
    if not shown.get("KmsMasterKeyId"):
        shown.pop("KmsDataKeyReusePeriodSeconds", None)
    return shown


def message_bytes_max(topic: Topic) -> int:
    """What a message may have at this door; a topic with less than SQS's least is asked itself."""
    most = topic.config.max_message_bytes
    return min(most - HEADROOM if most - HEADROOM >= RANGES["MaximumMessageSize"].low else most, MESSAGE_BYTES_MAX)


def modified_s(topic: Topic) -> int:
    return kept_of(topic).modified_s or topic.record.created_ms // 1000


def changed(topic: Topic, now: Millis, values: Mapping[str, str], removed: frozenset[str] = frozenset()) -> Kept:
    """What is kept after these values were set."""
    kept = kept_of(topic)
    attributes = {name: text for name, text in kept.attributes.items() if name not in removed}
    attributes |= {name: text for name, text in values.items() if name in KEPT}
    return msgspec.structs.replace(kept, modified_s=now // 1000, attributes=attributes)
