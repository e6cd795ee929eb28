"""Ids of tasks: 32 hexadecimal digits, of which the first twelve are the time, so that they sort by it."""

from __future__ import annotations

import secrets
import time
from typing import Final

_TIME_DIGITS: Final = 12


def new_id() -> str:
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def id_time_ms(task_id: str) -> int:
    """When the id was made, milliseconds since 1970; 0 if it is none of ours."""
    try:
        return int(task_id[:_TIME_DIGITS], 16)
    except ValueError:
        return 0
