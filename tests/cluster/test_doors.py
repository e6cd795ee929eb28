"""Strangers' clients and suites of every door pass against three nodes, whichever node they are pointed at.

The long form runs all of tests/door and the pipeline's link. See tests/one_of_cluster.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.etcd import etcd_program
from tests.long import LONG

ROOT = Path(__file__).parents[2]
SHORT = (
    "door/kafka/test_confluent.py",
    "door/kafka/test_share.py",
    "door/schemas/test_confluent.py",
    "door/sqs/test_fifo.py",
    "pipeline/link/test_cluster.py",
)
ALL = ("door", "client", "pipeline/link")


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_suites_of_the_doors_pass_against_three_nodes() -> None:
    etcd_program()
    suites = [str(ROOT / "tests" / name) for name in (ALL if LONG else SHORT)]
    quick = () if LONG else ("-m", "not slow")
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *quick, *suites],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NODE_CLUSTER": "3"},
    )
    assert told.returncode == 0, told.stdout[-8_000:]
