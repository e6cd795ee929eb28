"""Leaders of a cluster are killed while a client over gRPC works, which knows all addresses and goes on by itself."""

from __future__ import annotations

import pytest

from bench.cluster_process import ClusterProcess
from tests.client.kill_story import KillStory
from tests.long import LONG

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]


@pytest.mark.parametrize("scheme", ["grpc", "http"] if LONG else ["grpc"])
def test_leaders_are_killed_under_a_client(cluster: ClusterProcess, scheme: str) -> None:
    urls = [f"grpc://{node.grpc}" if scheme == "grpc" else node.url for node in cluster.nodes]

    def kill() -> None:
        cluster.wait(lambda: cluster.leader_of("in") is not None, "nobody leads")
        leader = cluster.leader_of("in")
        assert leader is not None
        cluster.kill(leader)
        cluster.start(leader)

    story = KillStory(urls, 2_000 if LONG else 300, replicas=3)
    story.run(6 if LONG else 1, kill)
    story.check()
