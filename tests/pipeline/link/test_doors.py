"""Who knows one door of a node is told the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.pipeline.link.doors import NodeAddresses, doors
from goqueue.pipeline.link.errors import PipelineError


def test_what_is_given_is_taken_as_it_is() -> None:
    assert doors("nobody:1", "http://nobody:2/") == NodeAddresses("nobody:1", "http://nobody:2")


def test_the_node_tells_its_other_door(shared: NodeProcess) -> None:
    both = NodeAddresses(shared.kafka, shared.url)
    assert doors(None, shared.url) == doors(None, f"{shared.url}/") == both
    assert doors(shared.kafka, None) == doors(shared.kafka, "") == both


@pytest.mark.parametrize(
    ("kafka", "url", "told"),
    [
        (None, None, "set kafka.bootstrap.servers .* or url"),
        (None, "localhost:8080", "write http://HOST:PORT"),
        ("localhost", None, "write HOST:PORT"),
    ],
)
def test_addresses_that_are_none_are_refused(kafka: str | None, url: str | None, told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        doors(kafka, url)


def test_doors_that_are_shut_are_told(tmp_path: Path) -> None:
    with (
        NodeProcess(tmp_path / "data", "--kafka", "off") as node,
        pytest.raises(PipelineError, match="has no Kafka door open"),
    ):
        doors(None, node.url)


def test_a_stranger_is_told_from_a_node(shared: NodeProcess) -> None:
    with pytest.raises(PipelineError, match="is no GoQueue node"):
        doors(None, f"{shared.url}/topics")
