"""`pipeline serve` ends at SIGTERM: the batch that it is at is done, it says so, and that is no failure."""

from __future__ import annotations

import signal
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
topic = "orders-to-end"
columns = "id string"
[[step]]
name = "waited"
sql = "SELECT id, java_method('java.lang.Thread', 'sleep', 2000L) AS waited FROM orders"
[[sink]]
view = "waited"
table = "waited"
"""


def test_a_served_pipeline_ends_its_batch(module_node: NodeProcess, tmp_path: Path) -> None:
    publish(module_node, "orders-to-end", [{"id": "a"}])
    (tmp_path / "slow.toml").write_text(SLOW)
    batches = tmp_path / "lake/_checkpoints/pipelines/slow/table-waited"
    words = ("pipeline", "serve", str(tmp_path), "--every", "1s", "--listen", "off", "--server", module_node.url)
    with Victim(tmp_path / "log", "tests.pipeline.definition.killed_run", *words) as serve:
        wait_until((batches / "offsets/0").exists, lambda: serve.told)
        assert not (batches / "commits/0").exists(), serve.told
        serve.process.send_signal(signal.SIGTERM)
        assert serve.process.wait(120) == 0, serve.told
        assert serve.has_said("Stopping: each pipeline ends the batch that it is at.")
        assert serve.has_said("slow: stopped, after its last batch"), serve.told
        assert serve.last_line == "Stopped; the next start goes on from here."
    assert (batches / "commits/0").exists()
    assert DeltaTable(str(tmp_path / "lake/waited")).to_pyarrow_table()["id"].to_pylist() == ["a"]
