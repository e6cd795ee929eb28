"""Instructions that two checkouts spend on one message: `python -m bench.instructions OLD NEW [--set ...] [CASE ...]`.

A busy machine cannot falsify them as it does rates and CPU times. Each node runs under valgrind, about fifty times as
slow, counting only while a case runs; time spent in the kernel is not counted. Needs Debian's package valgrind.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import compare_trees
from bench.compare_trees import CASES, Case
from bench.node_process import NodeProcess
from bench.report import Figure, show
from bench.storage import scratch

COUNTER = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--quiet")
SECONDS = 15.0  # of load for a case
BACKLOG = 5_000
ROUNDS = 2  # the last counts


class CountedNode(NodeProcess):
    """One that runs under valgrind."""

    def __init__(self, data_dir: Path, tree: Path, settings: dict[str, str]) -> None:
        super().__init__(data_dir, settings=settings, tree=tree, under=COUNTER)

    def instructions(self) -> int:
        """Of all threads, since it started."""
        found = re.findall(r"Th\s*\d+\s+([\d,]+)", self._control("-e", "Ir"))
        return sum(int(one.replace(",", "")) for one in found)

    def _control(self, *arguments: str) -> str:
        done = subprocess.run(
            ["callgrind_control", *arguments, str(self.pid)], capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise RuntimeError(done.stderr or done.stdout)
        return done.stdout


def cost(case: Case, node: CountedNode, topic: str) -> float:
    """Instructions for one message."""
    before = node.instructions()
    _, count = case(node, topic)
    return (node.instructions() - before) / count


def compared(old: CountedNode, new: CountedNode, parts: list[str]) -> Iterator[Figure]:
    for name, case in CASES.items():
        if not parts or any(part in name for part in parts):
            topic = "".join(c if c.isalnum() else "-" for c in name)
            rounds = [[cost(case, node, f"{topic}-{at}") for node in (old, new)] for at in range(ROUNDS)]
            before, now = rounds[-1]
            yield Figure(name, f"{now / before:.3f} of before", f"{now:,.0f} for a message")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a GOQUEUE_* variable for NEW")
    parser.add_argument("cases", nargs="*", help="parts of names; all if none")
    chosen = parser.parse_intermixed_args(arguments)
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: apt-get install valgrind")
        return 0
    compare_trees.SECONDS, compare_trees.BACKLOG = SECONDS, BACKLOG
    settings = dict(pair.split("=", 1) for pair in chosen.set)
    with (
        scratch() as root,
        CountedNode(root / "old", chosen.old, {}) as old,
        CountedNode(root / "new", chosen.new, settings) as new,
    ):
        for figure in compared(old, new, chosen.cases):
            show(figure.name, [figure])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
