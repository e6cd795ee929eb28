"""Which partition each row goes to: the one it names, else its key's, else whose turn it is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from goqueue.pipeline.arrow.memory import nulls_of, numbers_of
from goqueue.pipeline.arrow.murmur import HASHES
from goqueue.pipeline.arrow.rows import Rows
from goqueue.pipeline.arrow.varints import Ints
from goqueue.pipeline.link.errors import PipelineError


def partitions_of(rows: Rows, named: pa.Array | None, count: int, turn: int, hash_name: str = "murmur2") -> Ints:
    """For a topic of `count` partitions. `named` is the column 'partition'; rows without a key all go to `turn`."""
    found = np.full(len(rows), turn % count, np.int64)
    if rows.keys is not None and count > 1:
        hashed = HASHES[hash_name](rows.keys).astype(np.int64) % count
        found = np.where(nulls_of(rows.keys), found, hashed)
    if named is not None and named.null_count < len(named):
        found = np.where(nulls_of(named), found, _checked(named, count))
    return found


def _checked(named: pa.Array, count: int) -> Ints:
    if not pa.types.is_integer(named.type):
        raise PipelineError(f"The column 'partition' is of type {named.type}; it must be an integer.")
    numbers: Ints = np.where(nulls_of(named), 0, numbers_of(named.cast(pa.int64())))
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if wrong.size:
        raise PipelineError(f"A row names partition {wrong[0]}; the topic has 0 to {count - 1}.")
    return numbers


def split(rows: Rows, partitions: Ints) -> Iterator[tuple[int, Rows]]:
    """The rows of each partition, in the order that they came."""
    if not partitions.size:
        return
    if (partitions == partitions[0]).all():
        yield int(partitions[0]), rows
        return
    order = np.argsort(partitions, kind="stable")
    numbers, firsts = np.unique(partitions[order], return_index=True)
    for number, places in zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True):
        yield number, rows.take(places)
