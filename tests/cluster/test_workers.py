"""Tasks and clients over three nodes: they know all addresses, and go on when a node dies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.cluster_process import ClusterProcess
from goqueue.client import Client
from goqueue.worker import chord
from tests.waiting import wait_until
from tests.worker.workers import Program

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]

CODE = """
    @app.task(results=False, retries=100)
    def work(number):
        sleep(0.02)
        note(number)

    @app.task(retries=100)
    def member(number):
        sleep(0.05)
        return number

    @app.task(retries=100)
    def callback(numbers):
        return sum(numbers)
"""


def test_workers_go_on_when_a_node_is_killed(cluster: ClusterProcess, tmp_path: Path) -> None:
    program = Program(tmp_path, [node.url for node in cluster.nodes], CODE, lease="5s")
    with program.worker("--concurrency", "4"):
        program.work.send(range(200))
        result = chord([program.member.s(number) for number in range(50)], program.callback.s()).send()
        wait_until(lambda: len(program.notes) > 40)
        cluster.kill(0)
        wait_until(lambda: len(set(program.notes)) == 200)
        assert result.get(240) == sum(range(50))
        with Client([node.url for node in cluster.nodes]) as client:
            assert client.version().version, "the first address does not answer any more"
    assert sum(Counter(program.notes).values()) < 260, "only what was under way is done again"
