"""The sink on executors of their own, in a Python that has nothing of ours installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.pipeline.session.spark_home import overlay
from tests.long import only_long
from tests.pipeline.bare import bare_python
from tests.pipeline.sink.numbers import ROWS, feed, found
from tests.pipeline.topics import contents, make_topic

pytestmark = pytest.mark.xdist_group("jvm")


@only_long
@pytest.mark.slow
def test_executors_without_our_packages_write_every_row_once_though_one_is_killed(
    node: NodeProcess, tmp_path: Path
) -> None:
    topic = make_topic(node, "cluster")
    feed(tmp_path / "in", 0, 2)
    bare = bare_python(tmp_path)
    here = Path(sys.executable).parent
    environ = {
        **os.environ,
        "PYSPARK_PYTHON": "python3",
        "PATH": f"{here}:{os.environ['PATH']}",
        "SPARK_HOME": str(overlay(cache=tmp_path)),
    }
    command = [sys.executable, "-m", "tests.pipeline.sink.cluster_job", node.url, topic, str(tmp_path)]
    ran = subprocess.run([*command, f"{bare}:/usr/bin:/bin"], env=environ, capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, "\n".join(line for line in ran.stderr.splitlines() if "Error" in line)[:6000]
    facts = json.loads(ran.stdout.splitlines()[-1])
    assert all(".unpacked/" in fact for fact in facts if fact.endswith("__init__.py")), facts
    assert len(set(facts[3::4])) == 2, "two executors took part"
    assert found(contents(node, topic)) == list(range(2 * ROWS))
    assert len(contents(node, topic, "read_uncommitted")) > 2 * ROWS, "the killed one had written"
