"""Services ask a queue view its questions; its state is out of their reach."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/goqueue"
OUTSIDE = [SOURCE / "broker.py", *(path for layer in ("service",) for path in (SOURCE / layer).rglob("*.py"))]
STATE = (
    "goqueue.core.delivery.delivery_state",
    "goqueue.core.delivery.keys.KeyOrder",
    "goqueue.core.delivery.lane.LaneState",
)


def reaches(tree: ast.AST) -> Iterator[str]:
    """Private attributes of other objects, and imports of a view's state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "asyncio")):
                yield f"line {node.lineno}: .{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name.name}" for name in node.names]
            yield from (f"line {node.lineno}: {name}" for name in names if name.startswith(STATE))


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_only_the_view_reaches_into_its_state(path: Path) -> None:
    assert list(reaches(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        "delivery._state.held",
        "self.delivery._state.lanes[0].cursor = 3",
        "from goqueue.core.delivery.delivery_state import DeliveryState",
        "from goqueue.core.delivery.lane import LaneState",
    ],
)
def test_a_reach_is_noticed(line: str) -> None:
    assert list(reaches(ast.parse(line)))
