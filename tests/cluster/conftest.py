"""Three real nodes and a real etcd that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.cluster_process import ClusterProcess
from tests.etcd import etcd_program


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    etcd_program()
    settings = {"GOQUEUE_KAFKA_EXTERNAL_LISTEN": "127.0.0.1:0"}
    with ClusterProcess(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture
def cluster(shared_cluster: ClusterProcess) -> Iterator[ClusterProcess]:
    """Whole at the beginning, whatever the test before it did."""
    shared_cluster.heal()
    yield shared_cluster
