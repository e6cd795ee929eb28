"""An etcd for tests: from `ETCD` or the path, or built once into the cache where Go is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import etcd_process
from bench.etcd_process import EtcdMember
from goqueue.cli.etcd_program import EtcdMissing, find_etcd

__all__ = ["EtcdMember", "etcd_members", "etcd_program"]


def etcd_program() -> Path:
    """Skips the test where none can be had."""
    try:
        return find_etcd()
    except EtcdMissing as error:
        pytest.skip(error.message)


@contextmanager
def etcd_members(directory: Path, count: int = 1, *flags: str, scheme: str = "http") -> Iterator[list[EtcdMember]]:
    etcd_program()
    with etcd_process.etcd_members(directory, count, *flags, scheme=scheme) as members:
        yield members
