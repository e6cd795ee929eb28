"""What a process that starts has to load: an executor waits for it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("goqueue.pipeline.link.cluster", ("numpy", "pyarrow", "aiokafka", "httpx", "goqueue.wire.messages.table")),
        ("goqueue.pipeline.link.reading", ("aiokafka", "httpx", "pandas", "pyspark", "goqueue.wire.messages.table")),
        ("goqueue.pipeline.link.writing", ("aiokafka", "httpx", "pandas", "pyspark", "goqueue.wire.messages.table")),
        ("goqueue.pipeline.link.doors", ("numpy", "pyarrow", "httpx")),
        ("goqueue.cli", ("numpy", "pyarrow", "pandas", "pyspark")),
    ],
)
def test_nothing_heavy_is_loaded_without_need(module: str, unwanted: tuple[str, ...]) -> None:
    script = f"import sys, {module}; print([name for name in {unwanted!r} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_rows_are_read_and_written_without_pandas() -> None:
    """Arrow loads it on the sly when it is handed numpy's arrays or Python's values."""
    script = """
import sys
import pyarrow as pa
from goqueue.pipeline.arrow.columns import BASE, HEADERS, METADATA
from goqueue.pipeline.arrow.decode import decode_all
from goqueue.pipeline.arrow.encode import BatchProducer, encode
from goqueue.pipeline.arrow.memory import binary_array
from goqueue.pipeline.arrow.partitions import partitions_of, split
from goqueue.pipeline.arrow.rows import rows_of
import numpy as np
column = binary_array(np.array([0, 3, 6, 8]), b"onetwo33", pa.binary(), np.array([False, False, True]))
rows = rows_of(pa.record_batch([column, column], ["key", "value"]), 5)
for _, part in split(rows, partitions_of(rows, None, 4, 0)):
    for one in encode(part, BatchProducer(1, 0), 0):
        assert decode_all(one.batch, "t", 0, (*BASE, HEADERS, *METADATA)).num_rows == one.rows
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
