"""A real node that the tests of SQS's door share; each test uses queues of its own. Most run in both protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.node_process import NodeProcess
from tests.door.sqs.clients import client, unique
from tests.one_of_cluster import a_node


@pytest.fixture(scope="session")
def sqs_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with a_node(tmp_path_factory.mktemp("sqs") / "data") as running:
        yield running


@pytest.fixture(scope="session", params=["json", "query"])
def sqs(
    request: pytest.FixtureRequest, sqs_node: NodeProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """boto3, in one protocol and then in the other."""
    with client(sqs_node.sqs, request.param, tmp_path_factory.mktemp("model")) as made:
        yield made


@pytest.fixture(scope="session")
def json_sqs(sqs_node: NodeProcess) -> Iterator[Any]:
    with client(sqs_node.sqs) as made:
        yield made


@pytest.fixture
def new_queue(sqs: Any) -> Callable[..., str]:
    def make(**attributes: str) -> str:
        suffix = ".fifo" if attributes.get("FifoQueue") == "true" else ""
        return str(sqs.create_queue(QueueName=unique(suffix=suffix), Attributes=attributes)["QueueUrl"])

    return make


@pytest.fixture
def queue(new_queue: Callable[..., str]) -> str:
    """The URL of a standard queue."""
    return new_queue()


@pytest.fixture
def fifo(new_queue: Callable[..., str]) -> str:
    """The URL of a FIFO queue."""
    return new_queue(FifoQueue="true")
