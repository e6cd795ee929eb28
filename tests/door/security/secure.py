"""What tests of security share: certificates, users, and clients' settings."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from bench.node_process import NodeProcess
from goqueue.cli.cert import Authority

ADMIN = ("admin", "admin password")


class Certs(NamedTuple):
    """A folder of throw-away certificates."""

    folder: Path

    def file(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def ca(self) -> str:
        return self.file("ca.crt")

    def settings(self, client_auth: str = "none") -> dict[str, str]:
        return {
            "GOQUEUE_SECURITY_TLS_CERT_FILE": self.file("node.crt"),
            "GOQUEUE_SECURITY_TLS_KEY_FILE": self.file("node.key"),
            "GOQUEUE_SECURITY_TLS_CLIENT_CA_FILE": self.ca,
            "GOQUEUE_SECURITY_TLS_CLIENT_AUTH": client_auth,
        }

    def context(self, client: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        if client:
            context.load_cert_chain(self.file(f"{client}.crt"), self.file(f"{client}.key"))
        return context


def make_certs(folder: Path, *clients: str) -> Certs:
    authority = Authority(folder, 2)
    authority.issue("node", "goqueue", ["localhost", "127.0.0.1"])
    for name in clients:
        authority.issue(name, name, [])
    return Certs(folder)


def secure_settings(folder: Path) -> dict[str, str]:
    (folder / "users").write_text(":".join(ADMIN) + "\n")
    return {
        "GOQUEUE_SECURITY_AUTHENTICATION": "required",
        "GOQUEUE_SECURITY_BOOTSTRAP_FILE": str(folder / "users"),
        "GOQUEUE_SECURITY_SUPER_USERS": "admin",
    }


class SecureNode:
    """Asked as its administrator."""

    def __init__(self, node: NodeProcess, certs: Certs | None = None) -> None:
        self.node = node
        self.certs = certs
        verify = True if certs is None else certs.context()
        self.admin = httpx.Client(base_url=node.url, auth=ADMIN, verify=verify, timeout=30)

    def __enter__(self) -> SecureNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()

    def user(self, name: str, password: str = "a password", tenant: str = "") -> tuple[str, str]:
        asked = {"name": name, "password": password, "tenant": tenant}
        assert self.admin.post("/admin/users", json=asked).status_code == 201
        return name, password

    def key(self, owner: str, **more: object) -> dict[str, Any]:
        """Its `id`, `secret` and `token`."""
        answer = self.admin.post("/admin/keys", json={"owner": owner, **more})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return {**made["key"], "secret": made["secret"], "token": made["token"]}

    def bearer(self, token: str) -> httpx.Response:
        return httpx.get(f"{self.node.url}/topics", headers={"Authorization": f"Bearer {token}"}, verify=self._verify)

    @property
    def _verify(self) -> ssl.SSLContext | bool:
        return True if self.certs is None else self.certs.context()

    def confluent(self, mechanism: str, name: str, password: str) -> dict[str, Any]:
        """librdkafka's settings."""
        found = {
            "bootstrap.servers": self.node.kafka,
            "security.protocol": "SASL_PLAINTEXT" if self.certs is None else "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "log_level": 0,
        }
        return found if self.certs is None else {**found, "ssl.ca.location": self.certs.ca}
