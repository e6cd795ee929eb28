"""A node that the tests of this folder share; each uses topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.node_process import NodeProcess
from tests.one_of_cluster import a_node


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with a_node(tmp_path_factory.mktemp("shared") / "data") as running:
        yield running
