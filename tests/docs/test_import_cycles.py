"""No module of ours imports itself by a detour, wherever in a file the import stands. Imports for types alone do not
count."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"


def sources() -> dict[str, str]:
    """The text of every module, by its name."""
    found: dict[str, str] = {}
    for path in SRC.rglob("*.py"):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path.read_text()
    return found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from statements(child)


def imported(text: str) -> Iterator[tuple[str, str]]:
    """(module, name in it) of every import; the name is empty if the module itself is imported."""
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, one.name) for one in node.names)


def neighbours(name: str, modules: Mapping[str, str]) -> set[str]:
    """The modules that importing this one loads first, packages on the way included."""
    found: set[str] = set()
    for module, part in imported(modules[name]):
        whole = f"{module}.{part}" if f"{module}.{part}" in modules else module
        parts = whole.split(".")
        loaded = {".".join(parts[: count + 1]) for count in range(len(parts))}
        found |= {one for one in loaded if one in modules and one != name and not name.startswith(f"{one}.")}
    return found


def cycle(modules: Mapping[str, str]) -> list[str]:
    try:
        TopologicalSorter({name: neighbours(name, modules) for name in modules}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_a_detour() -> None:
    assert cycle(sources()) == []


def test_a_cycle_is_found_in_functions_and_over_packages_but_not_among_types() -> None:
    lazy = {"a": "from b import x", "b": "def f():\n    import c", "c": "from a import y"}
    assert set(cycle(lazy)) == {"a", "b", "c"}
    assert cycle({"p": "from p import q", "p.q": "import r", "r": "from p.q import x"}) != []
    assert cycle({"p": "from p.q import x", "p.q": "import r", "r": ""}) == []
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import y"
    assert cycle({"a": "from b import x", "b": types}) == []
