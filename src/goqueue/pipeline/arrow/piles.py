"""Rows held back until they are worth a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from goqueue.pipeline.arrow.encode import sizes_of
from goqueue.pipeline.arrow.rows import Rows


class PartitionRows:
    """The rows for one partition, in the order that they came."""

    def __init__(self) -> None:
        self._parts: list[Rows] = []
        self.size = 0  # bytes, at most

    def add(self, rows: Rows) -> None:
        self._parts.append(rows)
        self.size += int(sizes_of(rows).sum())

    def take(self) -> Rows:
        """All of them; the pile is empty then."""
        parts, self._parts, self.size = self._parts, [], 0
        return parts[0] if len(parts) == 1 else together(parts)


def together(parts: Sequence[Rows]) -> Rows:
    """One behind the other. A column that only some have is null in the others."""
    return Rows(
        pa.concat_arrays([part.values for part in parts]),
        _column([part.keys for part in parts], parts),
        _column([part.headers for part in parts], parts),
        np.concatenate([part.times for part in parts]),
    )


def _column(columns: Sequence[pa.Array | None], parts: Sequence[Rows]) -> pa.Array | None:
    kind = next((column.type for column in columns if column is not None), None)
    if kind is None:
        return None
    return pa.concat_arrays(
        [pa.nulls(len(part), kind) if column is None else column for column, part in zip(columns, parts, strict=True)]
    )
