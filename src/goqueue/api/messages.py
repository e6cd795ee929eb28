"""Messages, and errors. Unknown members of a request are errors; those of a reply are ignored."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.base.commands import SkippedOffsets
from goqueue.base.limits import HEADERS_PER_MESSAGE_MAX, MESSAGES_PER_PUBLISH_MAX

Encoding = Literal["text", "base64"]


class BinaryValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A header's value that is not text."""

    value: str
    encoding: Encoding = "text"


HeaderOne = str | BinaryValue | None
HeaderValue = str | BinaryValue | list[HeaderOne] | None


class RepeatIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cron line (in UTC, unless `timezone` says otherwise) or `every`; at most `times` times, not after `until`."""

    cron: str | None = None
    timezone: str | None = None
    every: int | str | None = None
    times: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    until: int | str | None = None


class MessageIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A message to publish."""

    value: str | None
    key: str | None = None
    headers: Annotated[dict[str, HeaderValue], msgspec.Meta(max_length=HEADERS_PER_MESSAGE_MAX)] = {}
    encoding: Encoding = "text"
    key_encoding: Encoding = "text"
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    priority: int | str | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | str | None = None
    delay: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | str | None = None
    deliver_at: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | str | None = msgspec.field(
        default=None, name="deliverAt"
    )
    ttl: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | str | None = None
    repeat: RepeatIn | None = None

    @property
    def is_timed(self) -> bool:
        return self.repeat is not None or not (self.timestamp is self.delay is self.deliver_at is self.ttl is None)


class PublishIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    messages: Annotated[list[MessageIn], msgspec.Meta(min_length=1, max_length=MESSAGES_PER_PUBLISH_MAX)]
    acks: Literal["none", "leader", "all"] = "all"


class ErrorOut(msgspec.Struct, frozen=True, omit_defaults=True):
    code: str
    detail: str
    field: str | None = None


class ResultOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a message went, where it waits for its time, or why it went nowhere."""

    partition: int | None = None
    offset: int | None = None
    scheduled: int | None = None
    deliver_at: str | None = msgspec.field(default=None, name="deliverAt")
    error: ErrorOut | None = None


class PublishOut(msgspec.Struct, frozen=True):
    results: list[ResultOut]


def _no_headers() -> dict[str, HeaderValue]:
    return {}


def _normal() -> str:
    return "normal"


class MessageOut(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message as it stands in the log. Headers and priority are always sent, also where they are the usual ones."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: dict[str, HeaderValue] = msgspec.field(default_factory=_no_headers)
    priority: str = msgspec.field(default_factory=_normal)
    encoding: Encoding = "text"
    key_encoding: Encoding = "text"


class DeliveredOut(MessageOut, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """A message under a lease. `attempt` counts how often it was handed out; answer with the receipt."""

    receipt: str
    attempt: int
    failures: int
    leased_until: int


class PartitionPageOut(msgspec.Struct, frozen=True, omit_defaults=True):
    messages: list[MessageOut]
    next_offset: int
    high_watermark: int
    skipped: list[SkippedOffsets] = []


class TopicPageOut(msgspec.Struct, frozen=True, omit_defaults=True):
    messages: list[MessageOut]
    next_offsets: dict[int, int]
    next: str
    skipped: list[SkippedOffsets] = []


class ProblemOut(msgspec.Struct, frozen=True):
    """An error (RFC 9457). `code` is stable; `detail` says what to do."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
