"""Tests of the client run over both transports."""

from __future__ import annotations

import pytest

from bench.node_process import NodeProcess


@pytest.fixture(params=["http", "grpc"])
def server_url(request: pytest.FixtureRequest, server: NodeProcess) -> str:
    """The shared node, over HTTP and over gRPC."""
    return server.url if request.param == "http" else f"grpc://{server.grpc}"
