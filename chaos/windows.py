"""Operations put together in windows of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from chaos.ops import Op

Points = list[tuple[float, float]]  # seconds from the start, and an amount
_WINDOWS_MAX: Final = 120
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300)


def window_s(length_s: float) -> float:
    return float(next((step for step in _STEPS_S if length_s / step <= _WINDOWS_MAX), _STEPS_S[-1]))


def rates(ops: Sequence[Op], began: float, length_s: float, step_s: float) -> Points:
    """Acknowledged a second; windows without any are 0."""
    counts: defaultdict[int, int] = defaultdict(int)
    for one in ops:
        counts[int((one.ended - began) // step_s)] += one.is_ok
    return [((place + 0.5) * step_s, counts[place] / step_s) for place in range(int(length_s // step_s))]


def latencies(ops: Sequence[Op], began: float, step_s: float, share: float) -> Points:
    """A percentile of each window that has something acknowledged."""
    windows: defaultdict[int, list[float]] = defaultdict(list)
    for one in ops:
        if one.is_ok:
            windows[int((one.ended - began) // step_s)].append(one.seconds)
    return [((place + 0.5) * step_s, percentile(found, share)) for place, found in sorted(windows.items())]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
