"""`NODE_SHARED` in the environment, a URL for each door: tests of doors run against a node that runs already, and that
another run uses at the same time as somebody of another tenant (`tests/door/tenants/test_side_by_side.py`).

Tests without a node from `a_node` start nodes of their own, and are left out. One that ends its node is passed over at
that moment: the other run needs it.
"""

from __future__ import annotations

import os
from typing import Any, Final, NoReturn

import msgspec
import pytest

ADDRESSES: Final = os.environ.get("NODE_SHARED", "")


class SharedNode:
    """As a `NodeProcess`."""

    def __init__(self) -> None:
        told = msgspec.json.decode(ADDRESSES, type=dict[str, str])
        self.url, self.kafka, self.sqs, self.grpc = (told[door] for door in ("url", "kafka", "sqs", "grpc"))
        self.block = ""

    def __getattr__(self, name: str) -> NoReturn:
        """Whatever else a test does to a node, or looks at, is the whole node's."""
        pytest.skip(f"it asks for {name} of a node that others use too")

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """It runs on."""
