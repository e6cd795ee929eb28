"""Kafka's clients show who they are, and those who cannot are refused in words that they understand."""

from __future__ import annotations

import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, UnsupportedSaslMechanismError
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from scramp import ScramClient

from goqueue.wire.messages.metadata import MetadataRequest
from tests.door.security.line import Line
from tests.door.security.secure import SecureNode
from tests.waiting import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own files
    from kafka import KafkaProducer

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


# --- strangers' clients ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("door", ["secure", "encrypted"])
def test_librdkafka_comes_in(door: str, mechanism: str, request: pytest.FixtureRequest) -> None:
    node: SecureNode = request.getfixturevalue(door)
    name, password = node.user(f"rd-{door}-{mechanism}")
    errors: list[KafkaError] = []
    conf: dict[str, Any] = {**node.confluent(mechanism, name, password), "error_cb": errors.append}
    producer = Producer(conf)
    stored: list[KafkaError | None] = []
    producer.produce("orders", b"1", on_delivery=lambda error, _: stored.append(error))
    producer.flush(20)
    assert stored == [None], errors


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_is_told_that_its_password_is_wrong(secure: SecureNode, mechanism: str) -> None:
    name, _ = secure.user(f"rd-wrong-{mechanism}")
    errors: list[KafkaError] = []
    conf: dict[str, Any] = {**secure.confluent(mechanism, name, "not it"), "error_cb": errors.append}
    client = AdminClient(conf)

    def refused() -> bool:
        client.poll(0.1)
        return any(one.code() == KafkaError._AUTHENTICATION for one in errors)

    wait_until(refused)


def test_librdkafka_is_told_that_the_mechanism_is_not_there(secure: SecureNode) -> None:
    errors: list[KafkaError] = []
    conf = {**secure.confluent("OAUTHBEARER", "a", "b"), "error_cb": errors.append}
    del conf["sasl.username"], conf["sasl.password"]
    conf |= {"oauth_cb": lambda _: ("a.b.c", 4102444800.0)}
    client = AdminClient(conf)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    client.poll(0.1)
    assert any("OAUTHBEARER" in one.str() for one in errors)


@pytest.mark.asyncio
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("door", ["secure", "encrypted"])
async def test_aiokafka_produces_and_consumes(door: str, mechanism: str, request: pytest.FixtureRequest) -> None:
    node: SecureNode = request.getfixturevalue(door)
    name, password = node.user(f"aio-{door}-{mechanism}")
    options = _aiokafka(node, mechanism, name, password)
    topic = f"t-{name}"
    async with AIOKafkaProducer(**options) as producer:
        await producer.send_and_wait(topic, b"hello")
    async with AIOKafkaConsumer(topic, group_id=name, auto_offset_reset="earliest", **options) as consumer:
        assert (await consumer.getone()).value == b"hello"


@pytest.mark.asyncio
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_is_told_that_its_password_is_wrong(
    secure: SecureNode, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, _ = secure.user(f"aio-wrong-{mechanism}")
    client = AIOKafkaAdminClient(**_aiokafka(secure, mechanism, name, "not it"))
    try:
        with pytest.raises(KafkaConnectionError):
            await client.start()
    finally:
        await client.close()
    assert "SaslAuthenticationFailed" in caplog.text


@pytest.mark.asyncio
async def test_aiokafka_is_told_that_the_mechanism_is_not_there(secure: SecureNode) -> None:
    line = Line(secure.node.kafka)
    with line:
        answer = line.handshake("GSSAPI")
    assert (answer.error_code, list(answer.mechanisms)) == (UnsupportedSaslMechanismError.errno, list(MECHANISMS))


def _aiokafka(node: SecureNode, mechanism: str, name: str, password: str) -> dict[str, object]:
    found: dict[str, object] = {
        "bootstrap_servers": node.node.kafka,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": name,
        "sasl_plain_password": password,
    }
    return (
        found if node.certs is None else found | {"security_protocol": "SASL_SSL", "ssl_context": node.certs.context()}
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_comes_in(secure: SecureNode, mechanism: str) -> None:
    name, password = secure.user(f"kp-{mechanism}")
    producer = KafkaProducer(**_aiokafka(secure, mechanism, name, password))
    try:
        assert producer.send("orders", b"1").get(20).topic == "orders"
    finally:
        producer.close()


_REFUSED = """
import logging, sys
from kafka import KafkaProducer
logging.basicConfig()
KafkaProducer(bootstrap_servers=sys.argv[1], security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN",
              sasl_plain_username=sys.argv[2], sasl_plain_password="not it", bootstrap_timeout_ms=1000)
"""


def test_kafka_python_is_told_that_its_password_is_wrong(secure: SecureNode) -> None:
    """In a process of its own: it leaves a thread and sockets behind."""
    name, _ = secure.user("kp-wrong")
    command = [sys.executable, "-c", _REFUSED, secure.node.kafka, name]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "SaslAuthenticationFailedError" in ended.stderr


def test_an_api_key_is_a_name_and_a_password(secure: SecureNode) -> None:
    secure.user("kay")
    key = secure.key("kay")
    client = AdminClient(secure.confluent("PLAIN", key["id"], key["secret"]))
    assert client.list_topics(timeout=20).brokers


def test_a_certificate_is_enough(encrypted: SecureNode) -> None:
    certs = encrypted.certs
    assert certs is not None
    conf: dict[str, Any] = {
        "bootstrap.servers": encrypted.node.kafka,
        "security.protocol": "SSL",
        "ssl.ca.location": certs.ca,
        "ssl.certificate.location": certs.file("carol.crt"),
        "ssl.key.location": certs.file("carol.key"),
    }
    assert AdminClient(conf).list_topics(timeout=20).brokers
    with pytest.raises(KafkaException):
        without = {name: value for name, value in conf.items() if "certificate" not in name and "key" not in name}
        AdminClient({**without, "log_level": 0}).list_topics(timeout=2)


# --- by hand --------------------------------------------------------------------------------------------------


@pytest.fixture
def line(secure: SecureNode) -> Iterator[Line]:
    with Line(secure.node.kafka) as made:
        yield made


def test_a_request_before_the_login_ends_the_connection(line: Line) -> None:
    with pytest.raises(EOFError):
        line.ask(3, 1, MetadataRequest(topics=None))


def test_authenticate_without_a_handshake_is_refused(line: Line) -> None:
    assert line.authenticate(b"\0admin\0x").error_code == 34


def test_a_frame_before_the_login_is_small(line: Line) -> None:
    line.send(struct.pack(">ihhih", 70_000, 36, 2, 1, -1))
    with pytest.raises(EOFError):
        line.answer()


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"a\0b", b"\0a\0b\0c", b"\xff\0\xff\0\xff", b"other\0admin\0admin password"]
)
def test_what_is_no_plain_message_is_refused(line: Line, data: bytes) -> None:
    line.handshake("PLAIN")
    assert line.authenticate(data).error_code == 58
    with pytest.raises(EOFError):
        line.answer()


def test_a_scram_exchange_cannot_be_replayed(secure: SecureNode) -> None:
    name, password = secure.user("replayed")
    client = ScramClient(["SCRAM-SHA-256"], name, password)
    with Line(secure.node.kafka) as line:
        line.handshake("SCRAM-SHA-256")
        first = client.get_client_first().encode()
        client.set_server_first(bytes(line.authenticate(first).auth_bytes).decode())
        final = client.get_client_final().encode()
        answer = line.authenticate(final)
        assert answer.error_code == 0
        client.set_server_final(bytes(answer.auth_bytes).decode())
    with Line(secure.node.kafka) as line:
        line.handshake("SCRAM-SHA-256")
        assert line.authenticate(first).error_code == 0
        assert line.authenticate(final).error_code == 58


def test_who_is_in_cannot_become_another(secure: SecureNode) -> None:
    secure.user("first", "first password")
    secure.user("second", "second password")
    with Line(secure.node.kafka) as line:
        line.handshake("PLAIN")
        assert line.authenticate(b"\0first\0first password").error_code == 0
        line.handshake("PLAIN")
        assert line.authenticate(b"\0first\0first password").error_code == 0
        line.handshake("PLAIN")
        assert line.authenticate(b"\0second\0second password").error_code == 58
