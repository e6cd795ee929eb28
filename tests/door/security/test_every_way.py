"""Ways in that the other files leave out, so that each of Kafka's clients comes in by each: kcat by a password and by a
certificate; librdkafka by a token that it fetches itself; kafka-python by a token and a certificate; aiokafka by a
certificate."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient

from tests.door.security.issuer import Issuer
from tests.door.security.secure import SecureNode

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
with_kcat = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


def made(node: SecureNode, name: str) -> str:
    """A topic."""
    assert node.admin.post("/topics", json={"name": name, "num_partitions": 1}).status_code == 201
    return name


# --- kcat ------------------------------------------------------------------------------------------------------------


def kcat(settings: dict[str, Any], *arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    assert KCAT is not None
    chosen = [f"-X{name}={value}" for name, value in settings.items() if name not in ("bootstrap.servers", "log_level")]
    command = [KCAT, "-b", settings["bootstrap.servers"], *chosen, *arguments]
    return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, check=False)


def comes_in(settings: dict[str, Any], topic: str) -> None:
    sent = kcat(settings, "-P", "-t", topic, lines="a\nb\n")
    assert sent.returncode == 0, sent.stderr
    read = kcat(settings, "-C", "-t", topic, "-e", "-q")
    assert read.stdout.split() == ["a", "b"], read.stderr


@with_kcat
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_kcat_by_a_password(encrypted: SecureNode, mechanism: str) -> None:
    name, password = encrypted.user(f"kcat-{mechanism}")
    comes_in(encrypted.confluent(mechanism, name, password), made(encrypted, f"kcat-{mechanism}"))
    refused = kcat(encrypted.confluent(mechanism, name, "not it"), "-L", "-m", "5")
    assert refused.returncode != 0 and "authentication fail" in refused.stderr.lower(), refused.stderr


def by_certificate(node: SecureNode) -> dict[str, Any]:
    assert node.certs is not None
    return {
        "bootstrap.servers": node.node.kafka,
        "security.protocol": "SSL",
        "ssl.ca.location": node.certs.ca,
        "ssl.certificate.location": node.certs.file("carol.crt"),
        "ssl.key.location": node.certs.file("carol.key"),
    }


@with_kcat
def test_kcat_by_a_certificate(encrypted: SecureNode) -> None:
    comes_in(by_certificate(encrypted), made(encrypted, "kcat-certificate"))


@contextmanager
def token_endpoint(token: str) -> Iterator[str]:
    """Where clients fetch their tokens (OIDC's client credentials)."""

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 600}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()


def bearer(node: SecureNode) -> dict[str, Any]:
    settings = node.confluent("OAUTHBEARER", "", "")
    return {name: value for name, value in settings.items() if name not in ("sasl.username", "sasl.password")}


def test_librdkafka_by_a_token_that_it_fetches(encrypted: SecureNode, issuer: Issuer) -> None:
    """Most builds of kcat cannot."""
    with token_endpoint(issuer.token()) as url:
        oidc = {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "client",
            "sasl.oauthbearer.client.secret": "its secret",
            "sasl.oauthbearer.token.endpoint.url": url,
        }
        assert AdminClient({**bearer(encrypted), **oidc}).list_topics(timeout=20).brokers


@with_kcat
def test_a_token_of_kcat_that_nobody_signed_is_refused(encrypted: SecureNode) -> None:
    """It says `alg: none`."""
    unsigned = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=admin"}
    refused = kcat({**bearer(encrypted), **unsigned}, "-L", "-m", "5")
    assert refused.returncode != 0 and "authentication fail" in refused.stderr.lower(), refused.stderr


# --- clients in Python -----------------------------------------------------------------------------------------------


class _Token(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def kafka_python_comes_in(settings: dict[str, Any], topic: str) -> None:
    producer = KafkaProducer(**settings)
    assert producer.send(topic, b"hello").get(30).offset == 0
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings)
    assert next(consumer).value == b"hello"
    consumer.close()


def test_kafka_python_by_a_token(encrypted: SecureNode, issuer: Issuer) -> None:
    assert encrypted.certs is not None
    settings = {
        "bootstrap_servers": encrypted.node.kafka,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": encrypted.certs.ca,
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": _Token(issuer.token()),
    }
    kafka_python_comes_in(settings, made(encrypted, "kafka-python-token"))


def test_kafka_python_by_a_certificate(encrypted: SecureNode) -> None:
    assert encrypted.certs is not None
    settings = {
        "bootstrap_servers": encrypted.node.kafka,
        "security_protocol": "SSL",
        "ssl_cafile": encrypted.certs.ca,
        "ssl_certfile": encrypted.certs.file("carol.crt"),
        "ssl_keyfile": encrypted.certs.file("carol.key"),
    }
    kafka_python_comes_in(settings, made(encrypted, "kafka-python-certificate"))


@pytest.mark.asyncio
async def test_aiokafka_by_a_certificate(encrypted: SecureNode) -> None:
    assert encrypted.certs is not None
    settings = {
        "bootstrap_servers": encrypted.node.kafka,
        "security_protocol": "SSL",
        "ssl_context": encrypted.certs.context("carol"),
    }
    topic = made(encrypted, "aiokafka-certificate")
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(topic, b"hello")
    async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings) as consumer:
        assert (await consumer.getone()).value == b"hello"
