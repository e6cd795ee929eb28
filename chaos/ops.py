"""What clients asked for, one entry each: when, how long it took, and whether it was acknowledged."""

from __future__ import annotations

import time
from typing import NamedTuple


class Op(NamedTuple):
    """`ended` is by the monotonic clock."""

    ended: float
    seconds: float
    is_ok: bool


class Ops:
    """Of one client. Written by its thread, read by others."""

    def __init__(self) -> None:
        self.done: list[Op] = []

    def note(self, began: float, is_ok: bool) -> None:
        ended = time.monotonic()
        self.done.append(Op(ended, ended - began, is_ok))

    @property
    def acknowledged(self) -> int:
        return sum(one.is_ok for one in self.done)
