"""Answers to messages under a lease."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.api.messages import ErrorOut
from goqueue.base.limits import TASK_TRACEBACK_CHARS_MAX

_RECEIPTS_MAX = 10_000
_TEXT_MAX = 1_000

Receipts = Annotated[list[str], msgspec.Meta(min_length=1, max_length=_RECEIPTS_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=_TEXT_MAX)]
LongText = Annotated[str, msgspec.Meta(max_length=TASK_TRACEBACK_CHARS_MAX)]
Duration = Annotated[int, msgspec.Meta(ge=0)] | str


class AckIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One receipt or many."""

    receipt: str | None = None
    receipts: Receipts | None = None


class NackIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Without a `delay` the message comes again after a back-off that doubles with each failure."""

    receipt: str | None = None
    receipts: Receipts | None = None
    delay: Duration | None = None
    reason: Text = ""


class RejectIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why stands in the dead letter; there is room for a traceback."""

    receipt: str | None = None
    receipts: Receipts | None = None
    reason: LongText = ""


class VisibilityIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The lease ends `timeout` from now; 0 gives the message back."""

    timeout: Duration
    receipt: str | None = None
    receipts: Receipts | None = None


class OutcomeOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one receipt fared."""

    receipt: str
    ok: bool
    error: ErrorOut | None = None


class AnswersOut(msgspec.Struct, frozen=True):
    """One for each receipt, in order."""

    results: list[OutcomeOut]
