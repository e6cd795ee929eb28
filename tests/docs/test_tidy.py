"""The tree keeps its own rules: layers, sizes, words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from goqueue.base.errors import GoQueueError, leaves
from goqueue.edge.rest.errors import STATUS, status_of

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_layers_hold() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_every_error_leaf_is_mapped_at_every_edge() -> None:
    for leaf in leaves():
        assert status_of(leaf("a sentence")) in STATUS.values()
    codes = [leaf.code for leaf in leaves()]
    assert len(set(codes)) == len(codes)
    assert all(issubclass(leaf, GoQueueError) for leaf in leaves())


def test_a_file_can_be_read_at_a_sitting() -> None:
    for path in SOURCES:
        assert len(path.read_text().splitlines()) <= 420, path


def test_every_module_says_what_it_is_for() -> None:
    for path in SOURCES:
        text = path.read_text()
        assert not text.strip() or text.startswith('"""'), path
