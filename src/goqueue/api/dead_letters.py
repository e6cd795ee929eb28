"""Dead letters, and their way back."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.api.messages import Encoding, HeaderValue
from goqueue.base.ids import Millis
from goqueue.base.limits import REDRIVE_RATE_MAX

_HEADERS_MAX = 20

Moment = Annotated[int, msgspec.Meta(ge=0, le=2**53)] | str


class LetterOrigin(msgspec.Struct, frozen=True):
    """The message that died."""

    topic: str
    partition: int
    offset: int
    group: str
    timestamp: Millis


class DeadLetterOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dead letter: the message as it was, and what became of it. Times are milliseconds since the epoch."""

    partition: int
    offset: int
    key: str | None
    value: str | None
    headers: dict[str, HeaderValue]
    priority: str
    reason: str
    error: str
    origin: LetterOrigin | None
    attempts: int
    failures: int
    first_delivered_at: Millis | None
    died_at: Millis | None
    redrives: int
    encoding: Encoding = "text"
    key_encoding: Encoding = "text"


class DeadLetterPage(msgspec.Struct, frozen=True):
    """`next` is the cursor of the next page, null at the end."""

    topic: str
    messages: list[DeadLetterOut]
    next: str | None


class FilterIn(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"since": "from", "until": "to"}
):
    """Everything given has to fit; `from` and `to` are times of death."""

    reason: str | None = None
    group: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=_HEADERS_MAX)] = {}
    fingerprint: Annotated[str, msgspec.Meta(max_length=64)] | None = None


class RedriveIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`rate` is messages a second; without `to` each message goes back to the topic that it died in."""

    filter: FilterIn = FilterIn()
    rate: Annotated[int, msgspec.Meta(ge=1, le=REDRIVE_RATE_MAX)] | None = None
    to: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    dry_run: bool = False


class RedriveProgress(msgspec.Struct, frozen=True):
    """How a redrive stands. `skipped` says why letters that fitted stayed; `eta_ms` is null if nobody knows."""

    id: str
    source: str
    to: str | None
    state: str
    total: int
    looked_at: int
    matched: int
    moved: int
    skipped: dict[str, int]
    failed: int
    failure: str
    rate: int | None
    limit: int | None
    moved_per_second: float
    eta_ms: Millis | None
    started: Millis
    finished: Millis | None


class RedriveList(msgspec.Struct, frozen=True):
    """The newest first."""

    redrives: list[RedriveProgress]


class DryRun(msgspec.Struct, frozen=True):
    """What would be moved, by reason, and why the rest would stay."""

    dry_run: bool
    matched: int
    would_move: int
    by_reason: dict[str, int]
    skipped: dict[str, int]
