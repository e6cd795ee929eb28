"""A standalone cluster whose workers have Spark's own needs and nothing of ours: `session()` ships the rest."""

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


def test_executors_elsewhere_get_what_they_need(node: NodeProcess, tmp_path: Path) -> None:
    topic = make_topic(node, "elsewhere", 2)
    bare_python(tmp_path)
    port = free_address().rpartition(":")[2]
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as cluster:
        cluster.enter_context(daemon("Master", tmp_path, "--port", port))
        cluster.enter_context(daemon("Worker", tmp_path, "--cores", "2", "--memory", "1g", master))
        command = [sys.executable, "-m", "tests.pipeline.session.standalone_job", master, node.url, topic]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert ran.returncode == 0, "\n".join(line for line in ran.stderr.splitlines() if "Error" in line)[:6000]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["count"] == 100
    assert told["at"].startswith(str(tmp_path / "work")) and ".unpacked/" in told["at"]
    assert len(contents(node, topic)) == 100
