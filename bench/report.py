"""How benchmarks report: one line a figure, with its baseline, ratio and bar."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import msgspec

Side = Callable[[], float]


class Figure(msgspec.Struct, frozen=True):
    """One measured thing. `ok` is None where no bar is set."""

    name: str
    value: str
    against: str = ""
    bar: str = ""
    ok: bool | None = None


def show(title: str, figures: Sequence[Figure]) -> None:
    print(f"\n{title}")
    for one in figures:
        verdict = {True: "ok", False: "MISSED", None: ""}[one.ok]
        print(f"  {one.name:<58} {one.value:>16}  {one.against:<34} {one.bar:<22} {verdict}", flush=True)


def alternate(ours: Side, baseline: Side, rounds: int) -> tuple[float, float, float]:
    """Runs both in turn and answers with both medians and the median of the rounds' ratios."""
    pairs = [(ours(), baseline()) for _ in range(rounds)]
    ratio = statistics.median(mine / other for mine, other in pairs)
    return statistics.median(mine for mine, _ in pairs), statistics.median(other for _, other in pairs), ratio


def percentile(sorted_values: Sequence[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]
