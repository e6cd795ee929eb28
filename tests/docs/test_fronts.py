"""Layers talk to each other through fronts: found by reading the syntax of every file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from goqueue.core.partition import PartitionState

SOURCE = Path(__file__).parents[2] / "src" / "goqueue"
SETTINGS_NAMES = {"settings", "_settings"}  # `settings.log` is a section
SCHEDULE_LOG = {"service/publish.py", "service/txn_effects.py"}  # the schedule's own log, until that has a front


def files(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((SOURCE / folder).rglob("*.py")) if (SOURCE / folder).is_dir() else [SOURCE / folder]:
            yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())


def last_name(node: ast.expr) -> str:
    """The name that an expression ends with: `partition` for `topic.partition(0)` and for `self.partition`."""
    if isinstance(node, ast.Call):
        return last_name(node.func)
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def reaches(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Places that go past a partition's front, into its log, its marks or its producers."""
    marks = {name for name in dir(PartitionState) if not name.startswith("_")}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        inner = node.value
        if node.attr == "dedupe" or (node.attr == "log" and last_name(inner) not in SETTINGS_NAMES):
            yield node.lineno, node.attr
        elif node.attr == "state" and last_name(inner) in ("partition", "partitions"):
            yield node.lineno, "state"
        elif node.attr in marks and isinstance(inner, ast.Attribute) and inner.attr == "state":
            yield node.lineno, f"state.{node.attr}"


def test_services_and_doors_never_reach_behind_a_partition() -> None:
    found = [
        (path, line, what)
        for path, tree in files("service", "edge", "broker.py", "node.py")
        for line, what in reaches(tree)
        if not (what == "log" and path in SCHEDULE_LOG)
    ]
    assert found == []


def test_a_reach_is_found_in_every_form() -> None:
    text = """
end = partition.log.end_offset
topic.partition(0).state.high_watermark
marks = topic.partitions[0].state
one.state.txns.open
partition.dedupe.check(header)
settings.log.fsync
task.state == "running"
"""
    assert sorted(line for line, _ in reaches(ast.parse(text))) == [2, 3, 3, 4, 5, 6]
