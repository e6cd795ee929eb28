"""Ratios that were accepted once do not get much worse unnoticed: `bench/compare/accepted.json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.compare.harness import Outcome
from bench.compare.results import Row

ACCEPTED: Final = Path(__file__).parent / "accepted.json"
LOSS_MAX: Final = 0.20


def read(path: Path = ACCEPTED) -> dict[str, float]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, float]) if path.exists() else {}


def accept(rows: Iterable[Row], path: Path = ACCEPTED) -> None:
    """What was measured now is what is compared with from now on; what was not stays."""
    ratios = read(path) | {row.key: round(row.ratio, 3) for row in rows}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(ratios.items()))), indent=1) + b"\n")


def losses(rows: Iterable[Row], accepted: dict[str, float]) -> Iterator[str]:
    for row in rows:
        before = accepted.get(row.key)
        if before is not None and row.ratio < before * (1 - LOSS_MAX):
            yield f"{row.key}: {row.ratio:.2f}, and {before:.2f} was accepted"


def not_measured(rows: Iterable[Row], accepted: dict[str, float], outcomes: Iterable[Outcome]) -> Iterator[str]:
    """What was accepted once and has no figure now, and why: a loss there would not be seen."""
    found = {row.key for row in rows}
    reasons = {
        (one.scenario, str(one.nodes), result.system): result.failed or result.absent or "it has no figure"
        for one in outcomes
        for result in one.results
    }
    for key in sorted(accepted.keys() - found):
        scenario, nodes, _, peer = key.split("/")
        yield f"{key}: {reasons.get((scenario, nodes, peer), 'it was not asked for')}"
