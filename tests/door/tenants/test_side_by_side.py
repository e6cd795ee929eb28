"""Suites of doors run twice at the same time against one node, as two tenants: every name is there twice, and neither
run notices the other. The long form runs all of tests/door and the pipeline's link, each suite on a node of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from tests.door.tenants.coming_from import coming_from
from tests.long import LONG
from tests.of_a_tenant import PROGRAM
from tests.one_of_cluster import SETTINGS

ROOT = Path(__file__).parents[3]
FOLDERS = ("sqs", "kafka", "http", "schemas", "grpc")  # acls, security and tenants start nodes of their own
WHOLE = {
    **{name: (f"door/{name}",) for name in FOLDERS},
    "rest": tuple(f"door/{path.name}" for path in sorted((ROOT / "tests/door").glob("test_*.py"))),
    "link": ("pipeline/link",),
}
PORTION = {
    "portion": (
        "door/sqs/test_dead_letters.py",
        "door/schemas/test_confluent.py",
        "door/test_rest_staged.py",
        "door/kafka/test_transactions.py::test_committed_messages_are_read_and_aborted_ones_never",
        "door/kafka/test_transactions.py::test_a_zombie_is_fenced",
        "door/kafka/test_transactions.py::test_offsets_go_with_the_transaction",
    )
}
SUITES = WHOLE if LONG else PORTION
PLACES = {"a": "127.0.0.2", "b": "127.0.0.3"}  # where each reaches the node


def started(node: NodeProcess, tenant: str, grpc: str, suites: tuple[str, ...]) -> subprocess.Popen[str]:
    """One run of the suites."""
    here = PLACES[tenant]
    doors = {"url": node.url, "kafka": node.kafka, "sqs": node.sqs}
    told = {door: address.replace("0.0.0.0", here).replace("127.0.0.1", here) for door, address in doors.items()}
    paths = [str(ROOT / "tests" / name) for name in suites]
    chosen = () if LONG else ("-m", "not slow")
    environ = {
        name: value for name, value in os.environ.items() if name != "GOQUEUE_LONG_TESTS"
    }  # each in its usual form
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *chosen, *paths],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**environ, "NODE_TENANT": tenant, "NODE_SHARED": json.dumps({**told, "grpc": grpc})},
    )


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("suite", SUITES)
def test_two_tenants_run_the_suites_of_the_doors_side_by_side(
    suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_PROGRAM", PROGRAM)
    monkeypatch.setenv("NODE_TENANTS", ",".join(f"{place}={tenant}" for tenant, place in PLACES.items()))
    settings = {"GOQUEUE_SECURITY_INSECURE": "on", **SETTINGS}
    anywhere = [part for door in ("rest", "kafka", "sqs", "grpc") for part in (f"--{door}", "0.0.0.0:0")]
    with ExitStack() as stack:
        node = stack.enter_context(NodeProcess(tmp_path / "data", *anywhere, settings=settings))
        grpc = {tenant: stack.enter_context(coming_from(place, node.grpc)) for tenant, place in PLACES.items()}
        runs = [started(node, tenant, grpc[tenant], SUITES[suite]) for tenant in PLACES]
        told = [run.communicate(timeout=3_000)[0] for run in runs]
    for tenant, text in zip(PLACES, told, strict=True):
        print(f"as tenant {tenant}:\n{text}")
    for run, text in zip(runs, told, strict=True):
        assert run.returncode == 0, text[-8_000:]
        assert " passed" in text.splitlines()[-1]
