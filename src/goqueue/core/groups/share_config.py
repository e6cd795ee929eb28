"""What an administrator can set for a share group, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.base.errors import InvalidConfig
from goqueue.base.ids import Millis
from goqueue.base.leases import Begin

SESSION: Final = "share.session.timeout.ms"
HEARTBEAT: Final = "share.heartbeat.interval.ms"
LOCK: Final = "share.record.lock.duration.ms"
DELIVERIES: Final = "share.delivery.count.limit"
RESET: Final = "share.auto.offset.reset"
ISOLATION: Final = "share.isolation.level"
SHARE_KEYS: Final[Mapping[str, str]] = {
    SESSION: "How long a member of a share group may be silent before it is removed.",
    HEARTBEAT: "How often a member of a share group reports.",
    LOCK: "How long a member of a share group holds a record that it acquired.",
    DELIVERIES: "How often a record is delivered in a share group before it is given up.",
    RESET: "Where a share group begins in a partition that is new to it: earliest or latest.",
    ISOLATION: "Records of transactions are delivered once they are committed.",
}
SHARE_DEFAULTS: Final[Mapping[str, str]] = {
    LOCK: "30000",
    DELIVERIES: "5",
    RESET: "latest",
    ISOLATION: "read_committed",
}
RANGES: Final[Mapping[str, tuple[int, int]]] = {LOCK: (1_000, 3_600_000), DELIVERIES: (2, 100)}
WORDS: Final[Mapping[str, tuple[str, ...]]] = {RESET: ("earliest", "latest"), ISOLATION: ("read_committed",)}


class ShareRules(msgspec.Struct, frozen=True):
    """How a share group takes records."""

    lock_ms: Millis = 30_000
    deliveries_max: int = 5
    begin: Begin = "latest"


def share_rules(config: Mapping[str, str]) -> ShareRules:
    chosen = {**SHARE_DEFAULTS, **config}
    begin: Begin = "earliest" if chosen[RESET] == "earliest" else "latest"
    return ShareRules(int(chosen[LOCK]), int(chosen[DELIVERIES]), begin)


def checked_word(key: str, text: str) -> str:
    """The value of a setting that is no number."""
    word = text.strip().lower()
    if word not in WORDS[key]:
        raise InvalidConfig(f"{key} is one of {', '.join(WORDS[key])}, not {text[:40]!r}.", field=key)
    return word


def check_ranges(config: Mapping[str, str]) -> None:
    for key, (least, most) in RANGES.items():
        if key in config and not least <= int(config[key]) <= most:
            raise InvalidConfig(f"{key} must be from {least} to {most}, not {config[key]}.", field=key)
