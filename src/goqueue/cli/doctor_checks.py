"""What `goqueue doctor` finds: one finding a check, each with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["ok", "warning", "wrong", "skipped"]


class Finding(msgspec.Struct, frozen=True):
    """`advice` says what to do; empty where there is nothing to."""

    check: str
    verdict: Verdict
    detail: str
    advice: str = ""


def checked(name: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """A check that fails itself is a finding, and stops no other."""
    try:
        return list(check())
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return [Finding(name, "wrong", reason, "Look at what it says; --debug before the command shows more.")]
