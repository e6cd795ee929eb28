"""What an administrator can set for a share group, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.base.errors import GoQueueError, InvalidConfig
from goqueue.base.ids import Millis
from goqueue.base.leases import Begin
from goqueue.base.times import parse_duration_ms

SESSION: Final = "share.session.timeout.ms"
HEARTBEAT: Final = "share.heartbeat.interval.ms"
LOCK: Final = "share.record.lock.duration.ms"
DELIVERIES: Final = "share.delivery.count.limit"
RESET: Final = "share.auto.offset.reset"
ISOLATION: Final = "share.isolation.level"
ORDER: Final = "queue.order"
LOCKS: Final = "share.partition.max.record.locks"
SHARE_KEYS: Final[Mapping[str, str]] = {
    SESSION: "How long a member of a share group may be silent before it is removed.",
    HEARTBEAT: "How often a member of a share group reports.",
    LOCK: "How long a member of a share group holds a record that it acquired.",
    LOCKS: "How many records of a partition the members of a share group hold together.",
    DELIVERIES: "How often a record is delivered in a share group before it is given up.",
    RESET: "Where a share group begins in a partition that is new to it: earliest, latest or by_duration:PT1H.",
    ISOLATION: "With read_committed records of a transaction are delivered once it is committed, with read_uncommitted "
    "as soon as they are stored, also those of a transaction that is aborted.",
    ORDER: "With key the group's queue consumers get messages of a key in order, whatever the topic says.",
}
SHARE_DEFAULTS: Final[Mapping[str, str]] = {
    LOCK: "30000",
    LOCKS: "2000",
    DELIVERIES: "5",
    RESET: "latest",
    ISOLATION: "read_committed",
    ORDER: "topic",
}
RANGES: Final[Mapping[str, tuple[int, int]]] = {
    LOCK: (1_000, 3_600_000),
    DELIVERIES: (2, 100),
    LOCKS: (100, 10_000),
}
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    RESET: ("earliest", "latest"),
    ISOLATION: ("read_committed", "read_uncommitted"),
    ORDER: ("topic", "key"),
}
_BY_DURATION: Final = "by_duration:"


class ShareRules(msgspec.Struct, frozen=True):
    """How a share group takes records. With `begin_ms` a new group begins with what is so old at most."""

    lock_ms: Millis = 30_000
    deliveries_max: int = 5
    begin: Begin = "latest"
    locks_max: int = 2_000
    begin_ms: Millis | None = None


def share_rules(config: Mapping[str, str]) -> ShareRules:
    chosen = {**SHARE_DEFAULTS, **config}
    begin: Begin = "earliest" if chosen[RESET] == "earliest" else "latest"
    numbers = (int(chosen[LOCK]), int(chosen[DELIVERIES]), begin, int(chosen[LOCKS]))
    return ShareRules(*numbers, _begin_ms(chosen[RESET]) if chosen[RESET].startswith(_BY_DURATION) else None)


def takes_uncommitted(config: Mapping[str, str]) -> bool:
    """Whether the group's queue consumers get what a transaction may yet take back."""
    return config.get(ISOLATION) == "read_uncommitted"


def _begin_ms(text: str) -> Millis:
    return parse_duration_ms(text.removeprefix(_BY_DURATION), RESET)


def checked_word(key: str, text: str) -> str:
    """The value of a setting that is no number."""
    word = text.strip().lower()
    if key == RESET and word.startswith(_BY_DURATION + "p"):
        return _checked_duration(_BY_DURATION + word.removeprefix(_BY_DURATION).upper())
    if word not in WORDS[key]:
        raise InvalidConfig(f"{key} is one of {', '.join(WORDS[key])}, not {text[:40]!r}.", field=key)
    return word


def _checked_duration(text: str) -> str:
    try:
        _begin_ms(text)
    except GoQueueError as error:
        raise InvalidConfig(
            f"{RESET} is by_duration: and a time such as PT1H, not {text[:40]!r}.", field=RESET
        ) from error
    return text


def check_ranges(config: Mapping[str, str]) -> None:
    for key, (least, most) in RANGES.items():
        if key in config and not least <= int(config[key]) <= most:
            raise InvalidConfig(f"{key} must be from {least} to {most}, not {config[key]}.", field=key)
