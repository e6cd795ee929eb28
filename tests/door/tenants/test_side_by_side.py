"""Suites of doors run twice at the same time against one node, as two tenants: every name is there twice, and neither
run notices the other. The long form runs all of tests/door and the pipeline's link, but for gRPC, whose server does not
tell at which address it was reached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from tests.long import LONG
from tests.of_a_tenant import PROGRAM

ROOT = Path(__file__).parents[3]
SHORT = (
    "door/sqs/test_dead_letters.py",
    "door/schemas/test_confluent.py",
    "door/test_rest_staged.py",
    "door/kafka/test_transactions.py::test_committed_messages_are_read_and_aborted_ones_never",
    "door/kafka/test_transactions.py::test_a_zombie_is_fenced",
    "door/kafka/test_transactions.py::test_offsets_go_with_the_transaction",
)
ALL = ("door", "pipeline/link")
PLACES = {"a": "127.0.0.2", "b": "127.0.0.3"}  # where each reaches the node


def started(node: NodeProcess, tenant: str) -> subprocess.Popen[str]:
    """One run of the suites."""
    here = PLACES[tenant]
    doors = {"url": node.url, "kafka": node.kafka, "sqs": node.sqs, "grpc": node.grpc}
    told = {door: address.replace("0.0.0.0", here).replace("127.0.0.1", here) for door, address in doors.items()}
    suites = [str(ROOT / "tests" / name) for name in (ALL if LONG else SHORT)]
    chosen = (f"--ignore={ROOT / 'tests/door/grpc'}",) if LONG else ("-m", "not slow")
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *chosen, *suites],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NODE_TENANT": tenant, "NODE_SHARED": json.dumps(told)},
    )


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_two_tenants_run_the_suites_of_the_doors_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_PROGRAM", PROGRAM)
    monkeypatch.setenv("NODE_TENANTS", ",".join(f"{place}={tenant}" for tenant, place in PLACES.items()))
    settings = {"GOQUEUE_SECURITY_INSECURE": "on", "GOQUEUE_GROUPS_HEARTBEAT_MS": "300"}
    anywhere = [part for door in ("rest", "kafka", "sqs", "grpc") for part in (f"--{door}", "0.0.0.0:0")]
    with NodeProcess(tmp_path / "data", *anywhere, settings=settings) as node:
        runs = [started(node, tenant) for tenant in PLACES]
        told = [run.communicate(timeout=3_000)[0] for run in runs]
    for run, text in zip(runs, told, strict=True):
        assert run.returncode == 0, text[-8_000:]
        assert " passed" in text.splitlines()[-1]
