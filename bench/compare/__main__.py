"""`python -m bench.compare [--quick] [--scenario NAME ...] [--system NAME ...]`: side by side with other brokers."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.compare.guard import ACCEPTED, accept, losses, not_measured, read
from bench.compare.harness import Tell, compare, settled
from bench.compare.model import FULL, QUICK, System
from bench.compare.results import (
    Machine,
    Report,
    drawing,
    drawing_name,
    durations,
    now,
    page,
    rows,
    table,
    total_seconds,
)
from bench.compare.scenarios import SCENARIOS
from bench.compare.systems import SYSTEMS, java_version
from bench.storage import scratch

# What a look needs to tell whether something was lost on the way.
QUICK_SCENARIOS = ("log-100", "latency-1k", "work-8", "trips", "start")


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    keys = [one.key for one in SCENARIOS]
    parser.add_argument("--quick", action="store_true", help="few rounds, little load, one node, some scenarios")
    parser.add_argument("--scenario", action="append", choices=keys, help="only this one; may be repeated")
    parser.add_argument("--system", action="append", choices=[one.key for one in SYSTEMS], help="only this one")
    parser.add_argument("--json", type=Path, help="where everything that was found is written, after each scenario")
    parser.add_argument(
        "--resume", action="store_true", help="leave out what --json's file has already, of this checkout"
    )
    parser.add_argument("--docs", type=Path, help="a directory for the page comparison.md and its drawings")
    parser.add_argument("--guard", action="store_true", help=f"fail on a loss of a fifth against {ACCEPTED.name}")
    parser.add_argument("--accept", action="store_true", help="take what was found for what is compared with")
    asked = parser.parse_args(given)
    if asked.resume and asked.json is None:
        parser.error("--resume needs --json")
    return asked


def chosen_systems(names: Sequence[str] | None, is_quick: bool) -> list[System]:
    found = [one for one in SYSTEMS if not names or one.key in names]
    return [one for one in found if one.nodes == 1] if is_quick else found


def main(given: Sequence[str]) -> int:
    asked = arguments(given)
    systems = chosen_systems(asked.system, asked.quick)
    wanted = asked.scenario or (QUICK_SCENARIOS if asked.quick else [one.key for one in SCENARIOS])
    scenarios = [one for one in SCENARIOS if one.key in wanted]
    for system in systems:
        print(f"{system.name}: {system.configuration}")
    began = time.monotonic()
    machine = Machine(
        platform.python_version(), os.cpu_count() or 0, f"{platform.system()} {platform.release()}", java_version()
    )
    report = Report(now(), "quick" if asked.quick else "full", machine, [])
    if asked.resume and asked.json.exists():
        go_on(report, asked.json)
    report.outcomes = settled(report.outcomes, SCENARIOS, systems)
    done = {(one.scenario, one.nodes) for one in report.outcomes}
    with scratch() as root:
        for outcome in compare(scenarios, systems, QUICK if asked.quick else FULL, root, _tell(began), done):
            report.outcomes.append(outcome)
            keep(report, asked.json)
            print(table(msgspec.structs.replace(report, outcomes=[outcome]), SCENARIOS, SYSTEMS), flush=True)
            print(f"{outcome.scenario} took {outcome.seconds:.0f} s; {total_seconds(report):.0f} s so far", flush=True)
    return finish(report, asked)


def _tell(began: float) -> Tell:
    return lambda what: print(f"[{time.monotonic() - began:5.0f} s] {what}", file=sys.stderr, flush=True)


def finish(report: Report, asked: argparse.Namespace) -> int:
    order = [one.key for one in SCENARIOS]
    report.outcomes.sort(key=lambda one: (order.index(one.scenario), one.nodes))
    print("\n" + table(report, SCENARIOS, SYSTEMS))
    print("\n" + durations(report))
    if asked.docs is not None:
        write_docs(report, asked.docs)
    found = list(rows(report, SCENARIOS))
    if asked.accept:
        accept(found)
    lost = list(losses(found, read())) if asked.guard else []
    for one in lost:
        print(f"lost: {one}")
    for one in not_measured(found, read(), report.outcomes) if asked.guard else ():
        print(f"not measured: {one}")
    broken = [one for outcome in report.outcomes for one in outcome.results if one.failed]
    return 1 if lost or broken else 0


def go_on(report: Report, path: Path) -> None:
    """With what an interrupted run has measured, if it was on this machine and as thorough."""
    before = msgspec.json.decode(path.read_bytes(), type=Report)
    if (before.effort, before.machine) != (report.effort, report.machine):
        raise SystemExit(f"{path} is of another machine, or of the {before.effort} form; name another file.")
    report.outcomes = before.outcomes
    report.made = f"{before.made.partition(' to ')[0]} to {report.made}"


def keep(report: Report, path: Path | None) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_bytes(msgspec.json.encode(report))
        new.replace(path)


def write_docs(report: Report, directory: Path) -> None:
    known = {one.key: one for one in SCENARIOS}
    (directory / "images").mkdir(parents=True, exist_ok=True)
    (directory / "comparison.md").write_text(page(report, SCENARIOS, SYSTEMS))
    for outcome in report.outcomes:
        metric = known[outcome.scenario].metrics[0]
        (directory / "images" / drawing_name(outcome, metric)).write_text(drawing(outcome, metric, SYSTEMS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
