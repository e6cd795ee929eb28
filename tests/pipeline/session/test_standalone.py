"""A standalone cluster of two workers that have Spark's own needs and nothing of ours: `session()` ships the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.pipeline.session.java import find_java
from goqueue.pipeline.session.spark_home import installed_spark
from tests.pipeline.bare import bare_python
from tests.pipeline.topics import contents, make_topic
from tests.pipeline.victims import free_address

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("jvm")]


@contextmanager
def daemon(kind: str, directory: Path, *arguments: str) -> Iterator[None]:
    """A master or worker in an environment of its own."""
    environ = {
        "PATH": f"{directory / 'bin'}:/usr/bin:/bin",
        "JAVA_HOME": str(find_java().home),
        "JDK_JAVA_OPTIONS": os.environ["JDK_JAVA_OPTIONS"],
        "SPARK_HOME": str(installed_spark()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(directory / "work"),
    }
    command = [str(installed_spark() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
    with (directory / f"{kind}.log").open("w") as log:
        running = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            env=environ,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


class Standalone:
    """A master and two workers with a core and a Python each."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.workers = [root / "worker-1", root / "worker-2"]
        port = free_address().rpartition(":")[2]
        self.master = f"spark://127.0.0.1:{port}"
        stack.enter_context(daemon("Master", root, "--port", port))
        for folder in self.workers:
            folder.mkdir()
            bare_python(folder)
            stack.enter_context(daemon("Worker", folder, "--cores", "1", "--memory", "600m", self.master))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.pipeline.session.standalone_job", self.master, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=250)


def test_executors_elsewhere_get_what_they_need_or_it_is_said(node: NodeProcess, tmp_path: Path) -> None:
    topic = make_topic(node, "elsewhere", 2)
    with ExitStack() as stack:
        cluster = Standalone(tmp_path, stack)
        ran = cluster.run(node.url, topic)
        assert ran.returncode == 0, "\n".join(line for line in ran.stderr.splitlines() if "Error" in line)[:6000]
        found = json.loads(ran.stdout.splitlines()[-1])
        assert found["count"] == 100 and len(contents(node, topic)) == 100
        for folder in cluster.workers:
            assert any(at.startswith(str(folder / "work")) and ".unpacked/" in at for at in found["at"]), found
        (cluster.workers[1] / "library" / "pyarrow").unlink()
        refused = cluster.run(node.url, topic)
    assert refused.returncode == 1
    told = next(line for line in refused.stderr.splitlines() if "Spark's workers cannot run pipelines: " in line)
    assert "cannot load pyarrow" in told
    assert len(contents(node, topic)) == 100
