"""A real node that the tests of gRPC's door share; each test uses topics of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from bench.node_process import NodeProcess
from tests.door.grpc.stubs import Stubs, stubs
from tests.one_of_cluster import a_node


@pytest.fixture(scope="session")
def grpc_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with a_node(tmp_path_factory.mktemp("grpc") / "data") as running:
        yield running


@pytest_asyncio.fixture
async def goqueue(grpc_node: NodeProcess) -> AsyncIterator[Stubs]:
    async with stubs(grpc_node.grpc) as made:
        yield made
