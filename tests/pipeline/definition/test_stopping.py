"""`pipeline serve` ends at SIGTERM: the batch that it is at is done, it says so, and that is no failure."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from bench.node_process import NodeProcess
from tests.pipeline.definition.files import publish
from tests.pipeline.victims import Victim
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420), pytest.mark.xdist_group("jvm")]

SLOW = """name = "slow"
[[source]]
name = "orders"
topic = "TOPIC"
columns = "id string"
[[step]]
name = "waited"
sql = "SELECT id, java_method('java.lang.Thread', 'sleep', 2000L) AS waited FROM orders"
[[sink]]
view = "waited"
table = "waited"
"""
BATCHES = "lake/_checkpoints/pipelines/slow/table-waited"


def test_a_served_pipeline_ends_its_batch(module_node: NodeProcess, tmp_path: Path) -> None:
    with served(module_node, tmp_path, "orders-to-end") as serve:
        began = time.monotonic()
        serve.process.send_signal(signal.SIGTERM)
        assert serve.process.wait(120) == 0, serve.told
        assert serve.has_said("Stopping: each pipeline ends the batch that it is at.")
        assert serve.last_line == "Stopped; the next start goes on from here."
        if serve.has_said("slow: stopped, within a batch, which the next start does again"):
            assert time.monotonic() - began >= 20, "a machine that is too busy for the batch has all of its time"
            return
        assert serve.has_said("slow: stopped, after its last batch"), serve.told
    assert (tmp_path / BATCHES / "commits/0").exists()
    assert DeltaTable(str(tmp_path / "lake/waited")).to_pyarrow_table()["id"].to_pylist() == ["a"]


def test_a_signal_to_spark_as_well_is_no_failure(module_node: NodeProcess, tmp_path: Path) -> None:
    """As systemd sends it to all processes of a service."""
    with served(module_node, tmp_path, "orders-to-break-off") as serve:
        os.killpg(serve.process.pid, signal.SIGTERM)
        assert serve.process.wait(120) == 0, serve.told
        assert serve.last_line == "Stopped; the next start goes on from here." and "Traceback" not in serve.told


@contextmanager
def served(node: NodeProcess, folder: Path, topic: str) -> Iterator[Victim]:
    """A pipeline within its first batch."""
    publish(node, topic, [{"id": "a"}])
    (folder / "slow.toml").write_text(SLOW.replace("TOPIC", topic))
    words = ("pipeline", "serve", str(folder), "--every", "1s", "--listen", "off", "--server", node.url)
    with Victim(folder / "log", "tests.pipeline.definition.killed_run", *words) as serve:
        wait_until((folder / BATCHES / "offsets/0").exists, lambda: serve.told)
        assert not (folder / BATCHES / "commits/0").exists(), serve.told
        yield serve
