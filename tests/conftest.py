"""A real node for tests that go through its doors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from tests.txn.watching import watched

__all__ = ["watched"]  # a fixture


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node of the test's own, in its own process."""
    with NodeProcess(tmp_path / "data") as running:
        yield running


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node that many tests share; each uses topics of its own."""
    with NodeProcess(tmp_path_factory.mktemp("shared") / "data") as running:
        yield running.url
