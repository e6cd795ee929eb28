"""An etcd for tests: from `ETCD` or the path, or built once into the cache where Go is at hand."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bench import etcd_process
from bench.etcd_process import EtcdMember
from goqueue.cli.etcd_program import EtcdMissing, find_etcd

__all__ = ["EtcdMember", "allow_only_root", "etcd_members", "etcd_program"]


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


def allow_only_root(url: str, trust: ssl.SSLContext | bool = True) -> None:
    """From now on it asks for a user and a password: `root` and `secret`."""

    def post(what: str, **body: str) -> None:
        httpx.post(f"{url}/v3/auth/{what}", json=body, timeout=60, verify=trust).raise_for_status()

    post("user/add", name="root", password="secret")
    post("role/add", name="root")
    post("user/grant", user="root", role="root")
    post("enable")


def add_user(url: str, name: str) -> None:
    """Where `allow_only_root` was before."""
    root = httpx.post(f"{url}/v3/auth/authenticate", json={"name": "root", "password": "secret"}, timeout=60)
    told = {"Authorization": root.raise_for_status().json()["token"]}
    body = {"name": name, "password": "secret"}
    httpx.post(f"{url}/v3/auth/user/add", json=body, headers=told, timeout=60).raise_for_status()
