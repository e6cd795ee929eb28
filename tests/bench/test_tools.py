"""`make bench` and `make compare` install what benchmarks need, and no tools of tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = "import sys; sys.modules.update(dict.fromkeys(('pytest', '_pytest', 'hypothesis', 'mypy'))); import {}"


@pytest.mark.parametrize("program", ["bench.__main__", "bench.compare.__main__"])
def test_benchmarks_begin_without_the_tools_of_tests(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
