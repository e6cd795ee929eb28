"""What a page for people asks beyond the rest: who it is, what settings mean, search, decoded values, leases."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.api.messages import Encoding, MessageOut
from goqueue.base.limits import DECODED_VALUES_MAX


class WhoOut(msgspec.Struct, frozen=True):
    """Who asks, as the node sees it; whether it wants to know at all, and whether it asks rules."""

    principal: str
    tenant: str
    authentication: bool
    authorization: bool


class SettingOut(msgspec.Struct, frozen=True):
    """A setting of topics: what it is for, and what counts where a topic says nothing."""

    name: str
    default: str
    doc: str


class SettingListOut(msgspec.Struct, frozen=True):
    settings: list[SettingOut]


class SearchOut(msgspec.Struct, frozen=True):
    """Messages that fit. `scanned` is how many were looked at; `next` is where to go on, null at the end."""

    messages: list[MessageOut]
    scanned: int
    next: str | None


class EncodedValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value as reading gives it. Without a `schema_id` it begins with Confluent's prefix."""

    value: str
    encoding: Encoding = "text"
    schema_id: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None


class DecodeIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    values: Annotated[list[EncodedValue], msgspec.Meta(min_length=1, max_length=DECODED_VALUES_MAX)]


class JsonValueOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value as JSON text, and the schema that it was written with; or `error`, why it cannot be told."""

    schema_id: int | None = None
    type: str | None = None
    subject: str | None = None
    json: str | None = None
    error: str | None = None


class DecodeOut(msgspec.Struct, frozen=True):
    """One for each value, in order."""

    results: list[JsonValueOut]


class LeaseOut(msgspec.Struct, frozen=True):
    """A message that somebody holds. The receipt is as good as the holder's: it extends the lease or ends it."""

    partition: int
    offset: int
    lane: str
    owner: str
    attempt: int
    failures: int
    leased_since: int
    leased_until: int
    receipt: str


class LeaseListOut(msgspec.Struct, frozen=True):
    leases: list[LeaseOut]


class PeekOut(msgspec.Struct, frozen=True):
    """Messages that could be handed out next. Nothing was taken."""

    messages: list[MessageOut]


class CalendarBucket(msgspec.Struct, frozen=True):
    """Messages that are due from `from_ms` on, up to the next step."""

    from_ms: int
    count: int


class CalendarOut(msgspec.Struct, frozen=True):
    """How many wait, by when they are due. Steps without any are left out; steps grow with the time to come."""

    step_ms: int
    pending: int
    buckets: list[CalendarBucket]


class AuditLineOut(msgspec.Struct, frozen=True):
    """`count` events that differ in nothing but their time, the last of them then."""

    time: str
    event: str
    user: str = ""
    door: str = ""
    host: str = ""
    verb: str = ""
    resources: list[str] = []
    outcome: str = ""
    count: int = 1
    node: int | None = None  # of a cluster


class AuditOut(msgspec.Struct, frozen=True):
    """The newest first, of all nodes. `is_kept` tells whether an audit log is kept at all; what was asked of nodes in
    `silent` is missing, since they did not answer."""

    lines: list[AuditLineOut]
    is_kept: bool
    silent: list[int] = []
