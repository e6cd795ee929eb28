"""What a dead letter tells: the message as it was, and in headers of ours where it died, why, how often and when."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.commands import Headers
from goqueue.base.delays import EXPIRES_HEADER
from goqueue.base.fingerprints import fingerprint
from goqueue.base.header_values import number_in, text_in
from goqueue.base.ids import Millis, Offset
from goqueue.base.tenants import full_name, meant_name, short_name, tenant_of, told_name
from goqueue.core.delivery.records import ViewId
from goqueue.format.records import Record

PREFIX: Final = "goqueue-dlq-"
REDRIVES_HEADER: Final = "goqueue-redrives"
REDRIVEN_FROM_HEADER: Final = "goqueue-redriven-from"
_REDRIVES_MAX: Final = 999_999_999
_EXPIRY: Final = PREFIX + "expires-at"  # instead of the header that queues obey
KEEPER: Final = "__dlq"  # the group whose view of a dead-letter topic says which letters are gone


class StoredDeadLetter(msgspec.Struct, frozen=True):
    """One dead letter. `topic`, `origin_partition` and `origin_offset` are None if it did not die here."""

    partition: int
    offset: Offset
    buried_ms: Millis
    key: bytes | None
    value: bytes | None
    headers: Headers  # without those that tell of its death
    topic: str | None = None
    origin_partition: int | None = None
    origin_offset: Offset | None = None
    group: str = ""
    reason: str = ""
    text: str = ""
    attempts: int = 0
    failures: int = 0
    first_ms: Millis = 0
    died_ms: Millis = 0
    timestamp_ms: Millis = 0
    redrives: int = 0


def told_view(view: ViewId) -> ViewId:
    """As copies tell of it: their headers are seen by the tenant, which never sees its own prefix."""
    tenant = tenant_of(view.topic)
    group = view.group if view.group == KEEPER else told_name(tenant, view.group)
    return ViewId(group, short_name(view.topic), view.partition)


def letter_of(home: str, partition: int, record: Record) -> StoredDeadLetter:
    """Reads a record of the dead-letter topic `home`. What it tells, it tells of that topic's tenant."""
    tenant = tenant_of(home)
    told: dict[str, bytes | None] = {}
    kept: list[tuple[str, bytes | None]] = []
    for name, value in record.headers:
        if name == _EXPIRY:
            kept.append((EXPIRES_HEADER, value))
        elif name.startswith(PREFIX):
            told[name[len(PREFIX) :]] = value
        else:
            kept.append((name, value))
    partition_told, offset_told = number_in(told.get("partition")), number_in(told.get("offset"))
    has_origin = bool(told.get("topic")) and partition_told is not None
    return StoredDeadLetter(
        partition,
        record.offset,
        record.timestamp_ms,
        record.key,
        record.value,
        tuple(kept),
        full_name(tenant, text_in(told["topic"])) if has_origin else None,
        partition_told if has_origin else None,
        (offset_told or 0) if has_origin else None,
        meant_name(tenant, text_in(told["group"])) if told.get("group") else "",
        text_in(told.get("reason")),
        text_in(told.get("error")),
        number_in(told.get("attempts")) or 0,
        number_in(told.get("failures")) or 0,
        number_in(told.get("first-delivered-at")) or 0,
        number_in(told.get("died-at")) or 0,
        number_in(told.get("timestamp")) or 0,
        redrives_of(record.headers),
    )


def origin_of(headers: Headers) -> tuple[ViewId, Offset] | None:
    """Of which message of which view, as it is told, a dead letter is the copy; None if it does not tell."""
    told = {name[len(PREFIX) :]: value for name, value in headers if name.startswith(PREFIX)}
    partition, offset = number_in(told.get("partition")), number_in(told.get("offset"))
    if partition is None or offset is None or "group" not in told or "topic" not in told:
        return None
    return ViewId(text_in(told["group"]), text_in(told["topic"]), partition), offset


def buried_headers(headers: Headers) -> Headers:
    """The headers of a message in its grave: earlier deaths are not repeated, and the dead have no time to live."""
    kept = [pair for pair in headers if not pair[0].startswith(PREFIX)]
    return tuple((_EXPIRY, value) if name == EXPIRES_HEADER else (name, value) for name, value in kept)


def redrives_of(headers: Headers) -> int:
    """How often the message came back from the dead letters."""
    found = [number_in(value) for name, value in headers if name == REDRIVES_HEADER]
    return min(found[-1] or 0, _REDRIVES_MAX) if found else 0


def redriven_headers(view: ViewId, message: Record) -> Headers:
    """The original headers, with how often it was redriven and from where."""
    ours = (REDRIVES_HEADER, REDRIVEN_FROM_HEADER)
    headers = [(EXPIRES_HEADER, value) if name == _EXPIRY else (name, value) for name, value in message.headers]
    kept = [pair for pair in headers if not pair[0].startswith(PREFIX) and pair[0] not in ours]
    count = redrives_of(message.headers) + 1
    origin = f"{short_name(view.topic)}:{view.partition}:{message.offset}"
    return (*kept, (REDRIVES_HEADER, str(count).encode()), (REDRIVEN_FROM_HEADER, origin.encode()))


def redriven_from(headers: Headers) -> tuple[ViewId, Offset] | None:
    """Which dead letter a redriven message was."""
    for name, value in reversed(headers):
        if name == REDRIVEN_FROM_HEADER and value is not None:
            topic, *rest = value.rsplit(b":", 2)
            partition, offset = (number_in(one) for one in rest) if len(rest) == 2 else (None, None)
            if partition is not None and offset is not None:
                return ViewId(KEEPER, text_in(topic), partition), offset
    return None


class DeadLetterFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which dead letters are meant; everything given has to fit. Times are those of death."""

    topic: str | None = None  # those that died in it, and those that died nowhere
    reason: str | None = None
    group: str | None = None
    from_ms: Millis | None = None
    to_ms: Millis | None = None
    headers: tuple[tuple[str, str], ...] = ()
    fingerprint: str | None = None  # of the error

    def fits(self, letter: StoredDeadLetter) -> bool:
        died_ms = letter.died_ms or letter.buried_ms
        return (
            (self.topic is None or letter.topic in (None, self.topic))
            and (self.reason is None or letter.reason == self.reason)
            and (self.group is None or letter.group == self.group)
            and (self.from_ms is None or died_ms >= self.from_ms)
            and (self.to_ms is None or died_ms < self.to_ms)
            and all((name, value.encode()) in letter.headers for name, value in self.headers)
            and (self.fingerprint is None or fingerprint(letter.text) == self.fingerprint)
        )


EVERYTHING: Final = DeadLetterFilter()
