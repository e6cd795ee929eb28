"""A node is killed again and again while clients work: nothing is lost, and what is done once is done once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from bench.peers.server import free_port
from tests.client.kill_story import KillStory
from tests.long import LONG
from tests.waiting import wait_until
from tests.worker.workers import Program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
KILLS = 10 if LONG else 2
CODE = """
    @app.task(results=False, retries=100)
    def work(number):
        sleep(0.01)
        note(number)
"""


@pytest.mark.parametrize("scheme", ["grpc", "http"] if LONG else ["grpc"])
def test_a_node_is_killed_under_clients_and_workers(tmp_path: Path, scheme: str) -> None:
    port = free_port()
    door = "--grpc" if scheme == "grpc" else "--rest"
    node = NodeProcess(tmp_path / "data", door, f"127.0.0.1:{port}", settings={"GOQUEUE_LOG_FSYNC": "always"})
    url = f"{scheme}://127.0.0.1:{port}"

    def kill() -> None:
        node.kill()
        node.start()

    with node:
        story = KillStory([url], 2_000 if LONG else 300)
        program = Program(tmp_path, url, CODE, lease="60s")
        with program.worker("--concurrency", "2"):
            program.work.send(range(200))
            story.run(KILLS, kill)
            story.check()
            wait_until(lambda: len(set(program.notes)) == 200)
        assert sum(Counter(program.notes).values()) <= 200 + KILLS * 5, "only what was under way is done again"
