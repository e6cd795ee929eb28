"""A node with two tenants, `a` and `b`, each with a user of its own, who names things as the other does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import boto3
import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.security.secure import SecureNode, secure_settings

PASSWORD = "a password"


class Tenants(NamedTuple):
    secure: SecureNode

    def kafka(self, who: str, **more: Any) -> dict[str, Any]:
        """Settings of librdkafka for `anna` (of a), `bert` (of b) or `admin` (of none)."""
        password = "admin password" if who == "admin" else PASSWORD
        return {**self.secure.confluent("SCRAM-SHA-256", who, password), **more}

    def aiokafka(self, who: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.secure.node.kafka,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": who,
            "sasl_plain_password": PASSWORD,
            **more,
        }

    def rest(self, who: str) -> httpx.Client:
        return httpx.Client(base_url=self.secure.node.url, auth=(who, PASSWORD), timeout=30)

    def sqs(self, who: str) -> Any:
        key = self.secure.key(who, signs=True)
        return boto3.client(
            "sqs",
            endpoint_url=self.secure.node.sqs,
            region_name="us-east-1",
            aws_access_key_id=key["id"],
            aws_secret_access_key=key["secret"],
        )


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    folder = tmp_path_factory.mktemp("tenants")
    with (
        NodeProcess(folder / "data", settings={**secure_settings(folder), "GOQUEUE_TRACES_SAMPLE_RATE": "1"}) as node,
        SecureNode(node) as secure,
    ):
        for tenant, name in (("a", "anna"), ("b", "bert")):
            assert secure.admin.post("/admin/tenants", json={"name": tenant}).status_code == 201
            secure.user(name, PASSWORD, tenant)
        yield Tenants(secure)
