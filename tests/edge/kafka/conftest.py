"""Kafka's door of one node of three."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edge.kafka.one_of_three import Run, at_node_0


@pytest.fixture
def told(tmp_path: Path) -> Run:
    return lambda story: at_node_0(tmp_path, story)


@pytest.fixture
def told_alone(tmp_path: Path) -> Run:
    return lambda story: at_node_0(tmp_path, story, in_cluster=False)
