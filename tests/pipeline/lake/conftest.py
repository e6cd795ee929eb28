"""The shop's lake: made once, only looked at. A test that changes a lake makes its own, or a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.node_process import NodeProcess
from tests.pipeline.lake.shop import Shop, open_shop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with NodeProcess(tmp_path_factory.mktemp("shop") / "data") as node:
        yield open_shop(spark, node, tmp_path_factory.mktemp("lake"))
