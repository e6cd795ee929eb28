"""Who spends the processor time of a read: Spark's JVM, its Python workers, or the node.

On a machine whose cores are all busy this says more than a rate: the rate is what is left of the cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bench.report import Figure

_TICKS = os.sysconf("SC_CLK_TCK")
_JVM, _WORKERS, _NODE = "JVM", "workers", "node"


def cpu_figure(
    name: str, rows: int, node_pid: int, read: Callable[[], object], parquet: Callable[[], object]
) -> Figure:
    ours, theirs = _spent(read, node_pid), _spent(parquet, node_pid)
    each = {kind: seconds / rows * 1e6 for kind, seconds in ours.items()}
    shares = ", ".join(f"{kind} {us:.2f}" for kind, us in each.items())
    return Figure(name, f"{sum(each.values()):.2f} us", f"{shares}; Parquet {sum(theirs.values()) / rows * 1e6:.2f}")


def _spent(work: Callable[[], object], node_pid: int) -> dict[str, float]:
    """Seconds of processor time by kind. What a process that began meanwhile spent counts whole."""
    before = _times(node_pid)
    work()
    found = dict.fromkeys((_JVM, _WORKERS, _NODE), 0.0)
    for process, (kind, seconds) in _times(node_pid).items():
        found[kind] += seconds - before.get(process, (kind, 0.0))[1]
    return found


def _times(node_pid: int) -> dict[int, tuple[str, float]]:
    """All processes that this one started, and those that they started."""
    parents, seconds = _all()
    found = {node_pid: (_NODE, seconds[node_pid])}
    for process in parents:
        if process not in (node_pid, os.getpid()) and _is_below(process, parents, node_pid):
            found[process] = (_kind(process), seconds[process])
    return found


def _is_below(process: int, parents: dict[int, int], node_pid: int) -> bool:
    while process in parents and process != node_pid:
        process = parents[process]
        if process == os.getpid():
            return True
    return False


def _all() -> tuple[dict[int, int], dict[int, float]]:
    parents, seconds = dict[int, int](), dict[int, float]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        process = int(place.parent.name)
        parents[process] = int(fields[1])
        seconds[process] = (int(fields[11]) + int(fields[12])) / _TICKS
    return parents, seconds


def _kind(process: int) -> str:
    try:
        program = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:  # it ended
        return _WORKERS
    return _JVM if program.endswith(b"java") else _WORKERS
