"""Layers talk to each other through fronts: found by reading the syntax of every file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from goqueue.core.partition import PartitionState

SOURCE = Path(__file__).parents[2] / "src" / "goqueue"
SETTINGS_NAMES = {"settings", "_settings"}  # `settings.log` is a section


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


# --- wiring -------------------------------------------------------------------------------------------------

ARGUMENTS_MAX = 6
ROOTS = ("broker.py", "node.py", "node_services.py")


def assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.Attribute]:
    """Attributes of others than `self` that a statement assigns."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for one in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(one, ast.Attribute) and not (isinstance(one.value, ast.Name) and one.value.id == "self"):
                yield one


def wirings(path: str, tree: ast.Module) -> Iterator[str]:
    """What is assigned to an object from outside: anything where objects are put together, callbacks elsewhere."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            is_wiring = function.name in ("__init__", "attach") or path in ROOTS
            for node in ast.walk(function):
                for one in assigned(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ():
                    if is_wiring or one.attr.startswith("on_"):
                        yield ast.unparse(one)


def test_objects_are_wired_by_their_constructors() -> None:
    found = {(path, text) for path, tree in files(*ROOTS, "service", "drive") for text in wirings(path, tree)}
    assert found == set()


def test_a_late_wiring_is_found_in_every_form() -> None:
    text = """
def __init__(self, runner):
    runner.on_ready = self.ready
    first.a, second.b = 1, 2
    self.mine = 1
def later(self, run):
    run.moved = 1
    self.table.on_changed = print
"""
    found = sorted(wirings("service/x.py", ast.parse(text)))
    assert found == ["first.a", "runner.on_ready", "second.b", "self.table.on_changed"]


def test_constructors_have_few_arguments() -> None:
    found = {
        f"{path} {owner.name}": len(node.args.args) - 1 + len(node.args.kwonlyargs)
        for path, tree in files(*ROOTS, "service", "drive")
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    }
    assert {name for name, count in found.items() if count > ARGUMENTS_MAX} == set()
