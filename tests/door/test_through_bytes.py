"""Doors and shards share nothing but commands and replies: door suites pass with every call encoded.

The nodes have one shard here, where the suites themselves use eight. The long form runs all of tests/door. See
tests/through_bytes.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import LONG

ROOT = Path(__file__).parents[2]
SHORT = (
    "test_rest.py",
    "test_rest_groups.py",
    "test_rest_dead_letters.py",
    "test_rest_transactions.py",
    "sqs/test_standard.py",
)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_door_suite_passes_with_every_call_encoded_and_decoded() -> None:
    suites = [str(ROOT / "tests/door" / name) for name in (("",) if LONG else SHORT)]
    quick = () if LONG else ("-m", "not slow")
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--deselect", f"{__file__}", *quick, *suites],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NODE_PROGRAM": "from tests.through_bytes import run; run()", "NODE_SHARDS": "1"},
    )
    assert told.returncode == 0, told.stdout[-8_000:]
