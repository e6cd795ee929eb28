"""`python -m chaos`: a cluster of real processes under load, faults on purpose, and whether every promise was kept."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from chaos.drills import NAMES, run_drill, unavailable
from chaos.nemeses import NEMESES
from chaos.netlab import no_lab
from chaos.report import write_report
from chaos.running import Outcome, Plan, Tell, run
from chaos.workloads import DOORS, WORKLOADS, workloads_here
from goqueue.cli.etcd_program import EtcdMissing

_ON_LOOPBACK = ("kill", "pause")
_SLOW = 3


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nodes, namespaces and disks go too
    if asked.drill:
        return _drill(asked.drill)
    tell = partial(print, flush=True)
    if asked.kubernetes:
        return _kubernetes(asked, tell)
    if why := no_lab():
        print(f"{why}; on loopback processes are killed and stand still, nothing else", flush=True)
    _known(asked.nemesis, NEMESES)
    nemeses = tuple(asked.nemesis or (_ON_LOOPBACK if why else NEMESES))
    plan = _plan(asked, nemeses, tuple(asked.workload or workloads_here()))
    try:
        with _scratch(asked.scratch, asked.keep) as scratch:
            outcome = run(plan, scratch, tell)
    except EtcdMissing as error:
        print(error.message, file=sys.stderr)
        return 2
    return _told(outcome, asked.report)


def _kubernetes(asked: argparse.Namespace, tell: Tell) -> int:
    import pytest

    from chaos.pods import POD_NEMESES, run_on_kubernetes

    _known(asked.nemesis, POD_NEMESES)
    _known(asked.workload, DOORS)
    plan = _plan(asked, tuple(asked.nemesis or POD_NEMESES), tuple(asked.workload or DOORS))
    try:
        with _scratch(asked.scratch, asked.keep) as scratch:
            outcome = run_on_kubernetes(plan, Path(asked.kubernetes), scratch, tell)
    except pytest.skip.Exception as missing:
        print(missing, file=sys.stderr)
        return 2
    return _told(outcome, asked.report)


def _known(names: list[str] | None, here: Collection[str]) -> None:
    """Not everything that there is can be had on every ground."""
    if unknown := sorted(set(names or ()) - set(here)):
        sys.exit(f"cannot be had there: {', '.join(unknown)}; choose from {', '.join(sorted(here))}")


def _plan(asked: argparse.Namespace, nemeses: tuple[str, ...], workloads: tuple[str, ...]) -> Plan:
    words = [f"--kubernetes {asked.kubernetes}"] if asked.kubernetes else []
    words += [f"--seed {asked.seed}", f"--rounds {asked.rounds}" if asked.rounds else f"--minutes {asked.minutes:g}"]
    words += [f"--nemesis {one}" for one in asked.nemesis or ()] + [f"--workload {one}" for one in asked.workload or ()]
    command = " ".join(["python -m chaos", *words])
    return Plan(asked.seed, asked.minutes * 60, nemeses, workloads, rounds=asked.rounds, command=command)


def _told(outcome: Outcome, report: str | None) -> int:
    if report:
        write_report(outcome, Path(report))
        print(f"report: {report}", flush=True)
    for one in outcome.broken[:40]:
        print(one)
    print(f"{'Every promise was kept' if not outcome.broken else 'BROKEN'}: seed {outcome.plan.seed}", flush=True)
    if outcome.broken and outcome.is_only_slow:
        print("Nothing was lost, doubled or reordered: progress came late, as on a busy machine.", flush=True)
        return _SLOW
    return 1 if outcome.broken else 0


@contextmanager
def _scratch(parent: str | None, keep: bool) -> Iterator[Path]:
    if parent:
        Path(parent).mkdir(parents=True, exist_ok=True)
    if keep:
        kept = Path(tempfile.mkdtemp(prefix="goqueue-chaos-", dir=parent))
        print(f"data of nodes and of etcd: {kept}", flush=True)
        yield kept
    else:
        with tempfile.TemporaryDirectory(prefix="goqueue-chaos-", dir=parent) as scratch:
            yield Path(scratch)


def _drill(names: list[str]) -> int:
    broken = []
    for name in names:
        if why := unavailable(name):
            print(f"left out: {name}: {why}", flush=True)
            continue
        print(f"--- {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="goqueue-chaos-") as scratch:
            broken += run_drill(name, Path(scratch), partial(print, flush=True))
    print("\n".join(broken) or "Every drill went as the runbook says")
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="of faults; the checks come on top")
    parser.add_argument("--rounds", type=int, default=0, help="of faults, however long they take, in place of minutes")
    parser.add_argument(
        "--nemesis",
        action="append",
        metavar="NAME",
        help=f"again for several; all if none: {', '.join(NEMESES)}; others on Kubernetes, see docs/chaos.md",
    )
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS), help="again for several; all if none")
    parser.add_argument(
        "--drill", action="append", choices=sorted(NAMES), help="of the runbook, in place of faults at random"
    )
    parser.add_argument(
        "--kubernetes", metavar="IMAGE.tar", help="on a Kubernetes of three machines made here, with this image"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 20))
    parser.add_argument("--report", metavar="FILE.html", help="what happened, as one page")
    parser.add_argument("--scratch", help="a directory for the data of nodes; the system's if none")
    parser.add_argument("--keep", action="store_true", help="the data of nodes stays there, for who looks for a cause")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
