"""A real node that the tests of schemas share; each test uses subjects and topics of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from bench.node_process import NodeProcess
from tests.door.kafka.raw import unique
from tests.one_of_cluster import a_node


@pytest.fixture(scope="session")
def schema_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with a_node(tmp_path_factory.mktemp("schemas") / "data") as running:
        yield running


@pytest.fixture
def http(schema_node: NodeProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=schema_node.url) as client:
        yield client


@pytest.fixture(params=["", "/schemas", "/v1"])
def confluent(request: pytest.FixtureRequest, schema_node: NodeProcess) -> Iterator[Any]:
    """Confluent's client as it is, told one of the addresses at which the registry stands."""
    with SchemaRegistryClient({"url": schema_node.url + request.param}) as client:
        yield client


@pytest.fixture
def new_topic(http: httpx.Client) -> Callable[..., str]:
    def make(**config: str) -> str:
        name = unique("t")
        settings = {key.replace("_", "."): value for key, value in config.items()}
        http.post("/topics", json={"name": name, "num_partitions": 1, "config": settings}).raise_for_status()
        return name

    return make
