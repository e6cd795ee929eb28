"""A node that asks who comes in, and one that speaks TLS as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from tests.door.security.issuer import Issuer
from tests.door.security.secure import Certs, SecureNode, make_certs, secure_settings


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certs:
    return make_certs(tmp_path_factory.mktemp("certs"), "carol")


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    folder = tmp_path_factory.mktemp("secure")
    with NodeProcess(folder / "data", settings=secure_settings(folder)) as node, SecureNode(node) as made:
        yield made


@pytest.fixture(scope="session")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, certs: Certs, issuer: Issuer) -> Iterator[SecureNode]:
    """Certificates of clients and signed tokens count here."""
    folder: Path = tmp_path_factory.mktemp("encrypted")
    settings = {**secure_settings(folder), **certs.settings("optional"), **issuer.publish(folder / "jwks")}
    with NodeProcess(folder / "data", settings=settings) as node, SecureNode(node, certs) as made:
        yield made
