"""Runs scenarios over systems: all of a scenario are up, one works at a time, in an order that turns with each round.

A round before the first warms up and is thrown away. What a check refuses is a failure of that system, and no figure.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.compare.model import CheckFailed, Effort, Running, Sample, Scenario, System, Turn
from bench.peers.server import PeerMissing

Tell = Callable[[str], None]


class Result(msgspec.Struct):
    """One system in one scenario: what each round found, by metric; or why there is nothing."""

    system: str
    samples: dict[str, list[float]] = {}
    absent: str = ""
    failed: str = ""

    def median(self, metric: str) -> float | None:
        found = self.samples.get(metric)
        return statistics.median(found) if found else None

    def spread(self, metric: str) -> tuple[float, float]:
        return min(self.samples[metric]), max(self.samples[metric])


class Outcome(msgspec.Struct):
    scenario: str
    nodes: int
    results: list[Result]
    seconds: float = 0.0


def compare(
    scenarios: Sequence[Scenario],
    systems: Sequence[System],
    effort: Effort,
    root: Path,
    tell: Tell,
    done: Collection[tuple[str, int]] = (),
) -> Iterator[Outcome]:
    """`done` are scenarios, with their numbers of nodes, that an earlier run has measured."""
    plan = [one for one in _plan(scenarios, systems) if (one[0].key, one[1]) not in done]
    for at, (scenario, nodes, chosen) in enumerate(plan, 1):
        tell(f"{scenario.key}, {nodes} {'node' if nodes == 1 else 'nodes'}: scenario {at} of {len(plan)}")
        yield _one(scenario, nodes, chosen, effort, root, tell)


def settled(outcomes: Sequence[Outcome], scenarios: Sequence[Scenario], systems: Sequence[System]) -> list[Outcome]:
    """Those of an earlier run that need not be measured again: nobody is left out, and nobody failed."""
    wanted = {(one.key, nodes): {system.key for system in chosen} for one, nodes, chosen in _plan(scenarios, systems)}
    known = {(one.scenario, one.nodes): {result.system for result in one.results} for one in outcomes}
    return [
        one
        for one in outcomes
        if wanted.get((one.scenario, one.nodes), {""}) <= known[one.scenario, one.nodes]
        and not any(result.failed for result in one.results)
    ]


def _plan(scenarios: Sequence[Scenario], systems: Sequence[System]) -> Iterator[tuple[Scenario, int, list[System]]]:
    """Each scenario once for each number of nodes that somebody has."""
    for scenario in scenarios:
        for nodes in scenario.nodes:
            chosen = [one for one in systems if one.nodes == nodes and scenario.door in one.doors]
            if chosen:
                yield scenario, nodes, chosen


def _one(scenario: Scenario, nodes: int, systems: Sequence[System], effort: Effort, root: Path, tell: Tell) -> Outcome:
    began = time.perf_counter()
    scratch = root / f"{scenario.key}-{nodes}"
    scratch.mkdir(parents=True)
    with ExitStack() as stack:
        results = {one.key: Result(one.key) for one in systems}
        rounds = _rounds(scenario, systems, results, scratch, stack)
        for number in range(-1, effort.rounds):
            for system in in_turn(systems, number):
                tell(f"{scenario.key}, {system.name}: {_round_name(number, effort)}")
                _round(rounds[system.key], results[system.key], Turn(number + 1, effort, scratch), number >= 0)
    return Outcome(scenario.key, nodes, list(results.values()), time.perf_counter() - began)


def _round_name(number: int, effort: Effort) -> str:
    return f"round {number + 1} of {effort.rounds}" if number >= 0 else "warm-up"


def in_turn(systems: Sequence[System], number: int) -> list[System]:
    """Who is first in one round is last in the next."""
    at = number % len(systems)
    return [*systems[at:], *systems[:at]]


Round = Callable[[Turn], Sample]


def _rounds(
    scenario: Scenario, systems: Sequence[System], results: dict[str, Result], scratch: Path, stack: ExitStack
) -> dict[str, Round]:
    if scenario.measure_start is not None:
        return {one.key: _start_of(scenario, one) for one in systems}
    found: dict[str, Round] = {}
    for system in systems:
        found[system.key] = _nothing
        try:
            running = stack.enter_context(system.start(_home(scratch / system.key)))
        except PeerMissing as error:
            results[system.key].absent = str(error)
        except Exception as error:  # one that does not start must not end the others' measurement
            results[system.key].failed = _failure(error)
        else:
            found[system.key] = _measure_of(scenario, running)
    return found


def _home(path: Path) -> Path:
    path.mkdir(parents=True)
    return path.resolve()


def _nothing(turn: Turn) -> Sample:
    return {}


def _failure(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _measure_of(scenario: Scenario, running: Running) -> Round:
    assert scenario.measure is not None
    measure = scenario.measure
    return lambda turn: measure(running, turn)


def _start_of(scenario: Scenario, system: System) -> Round:
    assert scenario.measure_start is not None
    measure = scenario.measure_start
    return lambda turn: measure(system, turn)


def _round(measure: Round, result: Result, turn: Turn, counts: bool) -> None:
    if result.absent or result.failed:
        return
    try:
        found = measure(turn)
    except PeerMissing as error:
        result.absent = str(error)
    except CheckFailed as error:
        result.failed, result.samples = str(error), {}
    except Exception as error:  # a system that breaks must not end the others' measurement
        result.failed, result.samples = _failure(error), {}
    else:
        if counts:
            for name, value in found.items():
                result.samples.setdefault(name, []).append(value)
