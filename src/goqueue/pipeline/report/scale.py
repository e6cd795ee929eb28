"""From numbers to places on a plot, and the round numbers where an axis is marked."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

_TIME_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * n for n in (1, 2, 5, 10, 15, 30)),
    *(3_600 * n for n in (1, 2, 3, 6, 12)),
    *(86_400 * n for n in (1, 2, 7, 14, 30, 90, 365)),
)


class Scale(msgspec.Struct, frozen=True):
    """`low` to `high` lie evenly, or by their logarithm, between two places in pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self._bent(self.low), self._bent(self.high), self._bent(value)
        part = (at - low) / (high - low) if high > low else 0.0
        return self.start + min(1.0, max(0.0, part)) * (self.end - self.start)

    def _bent(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.is_log else value


def even_ticks(high: float, wanted: int = 4, base: int = 10) -> list[float]:
    """From 0 in steps of 1, 2 or 5 times a power, the last at or above `high`. `base` 1024 is for bytes."""
    step = even_step(max(high, 1e-9) / wanted, base)
    return [step * n for n in range(math.ceil(high / step - 1e-9) + 1)] if high > 0 else [0.0, step]


def even_step(rough: float, base: int) -> float:
    """The least round step that is not below `rough`."""
    power = float(base) ** math.floor(math.log(rough, base))
    # Quarters and halves of the next unit: steps of 500 B would go on from 1000 B to 1.46 KiB.
    factors = (1, 2, 5, 10, 20, 50, 100, 256, 512, 1024) if base == 1024 else (1, 2, 5, 10)
    return next((factor * power for factor in factors if factor * power >= rough * (1 - 1e-9)), float(base * power))


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten that hold both between them."""
    first, last = math.floor(math.log10(max(low, 1e-9))), math.ceil(math.log10(max(high, low, 1e-9)))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def time_ticks(low_ms: float, high_ms: float, wanted: int = 8) -> list[float]:
    """Round times in UTC within the range."""
    step = time_step_ms(high_ms - low_ms, wanted)
    first = math.ceil(low_ms / step) * step
    return [first + n * step for n in range(int((high_ms - first) // step) + 1)] if high_ms >= first else []


def time_step_ms(length_ms: float, wanted: int) -> int:
    fitting = (step for step in _TIME_STEPS_S if step * 1000 * wanted >= length_ms)
    return 1000 * next(fitting, _TIME_STEPS_S[-1])


def time_label(step_ms: int) -> Callable[[float], str]:
    """As much of the time as the step needs."""
    form = "%H:%M:%S" if step_ms < 60_000 else "%H:%M" if step_ms < 43_200_000 else "%d %b"
    return lambda ms: datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
