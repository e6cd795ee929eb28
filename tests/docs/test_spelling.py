"""The words of all pages are spelt right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _places() -> list[str]:
    """As `make docs` has them."""
    found = re.search(r"^\t\$\(BIN\)/codespell (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return [str(path) for word in found[1].split() for path in sorted(ROOT.glob(word))]


def _checked(*places: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "codespell"
    return subprocess.run([program, *places], capture_output=True, text=True, cwd=ROOT)


def test_every_page_is_spelt_right() -> None:
    places = _places()
    assert str(ROOT / "docs") in places and str(ROOT / "README.md") in places
    done = _checked(*places)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_word_that_is_not_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("What you recieve.\n")
    assert "recieve ==> receive" in _checked(str(tmp_path)).stdout
