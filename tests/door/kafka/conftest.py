"""A real node that the tests of Kafka's door share; each test uses topics and groups of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bench.node_process import NodeProcess
from tests.door.kafka.raw import Line, new_topic, unique
from tests.door.kafka.share import ShareMember, configure
from tests.one_of_cluster import a_node


@pytest.fixture(scope="session")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    # Members of the server-side protocol see a rebalance with their next heartbeat; tests do not wait 3 s for it.
    # Some messages carry old timestamps; retention must not take them away in the middle of a test.
    settings = {"GOQUEUE_GROUPS_HEARTBEAT_MS": "300", "GOQUEUE_TOPICS_RETENTION_MS": "-1"}
    with a_node(tmp_path_factory.mktemp("kafka") / "data", settings) as running:
        yield running


@pytest.fixture
def kafka(shared_node: NodeProcess) -> str:
    """Its address."""
    return shared_node.kafka


@pytest.fixture
def topic(kafka: str) -> str:
    """A topic of the test's own, with three partitions."""
    name = unique("t")
    with Line(kafka) as line:
        assert line.ask(new_topic(name, 3)).topics[0].error_code == 0
    return name


@pytest.fixture
def group() -> str:
    return unique("g")


@pytest.fixture
def line(kafka: str) -> Iterator[Line]:
    with Line(kafka) as made:
        yield made


@pytest.fixture
def lone(line: Line) -> str:
    """A topic of the test's own, with one partition."""
    name = unique("t")
    assert line.ask(new_topic(name, 1)).topics[0].error_code == 0
    return name


@pytest.fixture
def join(kafka: str, line: Line, lone: str, group: str) -> Iterator[Callable[[], ShareMember]]:
    """Members of one share group that begins at the beginning."""
    configure(line, group, share_auto_offset_reset="earliest")
    made: list[ShareMember] = []

    def more() -> ShareMember:
        made.append(ShareMember(kafka, group, lone))
        return made[-1]

    yield more
    for one in made:
        one.close()
