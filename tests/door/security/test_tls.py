"""TLS at the doors: whom clients believe, handshakes that do not end, certificates that are changed under load."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from bench.node_process import NodeProcess
from goqueue.base.limits import HANDSHAKES_MAX
from goqueue.cli.cert import Authority
from tests.door.security.issuer import Issuer
from tests.door.security.line import Line
from tests.door.security.secure import ADMIN, Certs, SecureNode, make_certs, secure_settings
from tests.waiting import wait_until


def _address(node: SecureNode) -> tuple[str, int]:
    return _place(node.node.kafka)


def test_librdkafka_does_not_believe_another_authority(
    encrypted: SecureNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_certs(tmp_path_factory.mktemp("rd-other"))
    errors: list[KafkaError] = []
    conf = {**encrypted.confluent("PLAIN", *ADMIN), "ssl.ca.location": other.ca, "error_cb": errors.append}
    client = AdminClient(conf)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    client.poll(0.1)
    assert any(one.code() == KafkaError._SSL for one in errors)


def test_a_certificate_of_another_authority_is_not_taken(
    encrypted: SecureNode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert encrypted.certs is not None
    other = make_certs(tmp_path_factory.mktemp("forged"), "admin")
    context = ssl.create_default_context(cafile=encrypted.certs.ca)
    context.load_cert_chain(other.file("admin.crt"), other.file("admin.key"))
    with pytest.raises((EOFError, OSError)), Line(encrypted.node.kafka, context) as line:
        line.metadata()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_are_not_spoken(encrypted: SecureNode, version: ssl.TLSVersion) -> None:
    assert encrypted.certs is not None
    context = encrypted.certs.context()
    context.minimum_version, context.maximum_version = version, version
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(OSError), socket.create_connection(_address(encrypted), 20) as plain:
        context.wrap_socket(plain, server_hostname="localhost")


def test_handshakes_that_do_not_end_keep_nobody_out(encrypted: SecureNode) -> None:
    """Twice as many as there may be; each has begun one."""
    with ExitStack() as held:
        for _ in range(2 * HANDSHAKES_MAX):
            one = held.enter_context(socket.create_connection(_address(encrypted), 20))
            one.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert encrypted.certs is not None
        with Line(encrypted.node.kafka, encrypted.certs.context()) as line:
            assert line.plain(*ADMIN).error_code == 0


def test_a_handshake_has_a_limit(encrypted: SecureNode) -> None:
    with socket.create_connection(_address(encrypted), 60) as one:
        one.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert one.recv(100) == b""


def test_what_is_not_tls_is_cut(encrypted: SecureNode) -> None:
    with socket.create_connection(_address(encrypted), 60) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while one.recv(1000):
            pass


# --- certificates that change -----------------------------------------------------------------------------------


def _serial(address: tuple[str, int]) -> bytes:
    return ssl.get_server_certificate(address, timeout=20).encode()


def _is_other(address: tuple[str, int], serial: bytes) -> bool:
    return _serial(address) != serial


def test_certificates_are_changed_under_load(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    certs = make_certs(tmp_path / "certs")
    settings = {**secure_settings(tmp_path), **certs.settings()}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        context, stop = certs.context(), threading.Event()
        failed: list[object] = []
        loads = [
            threading.Thread(target=_ask, args=(node.url, context, stop, failed)),
            threading.Thread(target=_ask_kafka, args=(node.kafka, context, stop, failed)),
        ]
        for load in loads:
            load.start()
        doors = [_place(one) for one in (node.url, node.sqs, node.kafka, node.grpc)]
        try:
            first = _serial(doors[0])
            assert [_serial(door) for door in doors] == [first] * len(doors)
            _broken(certs)
            assert [_serial(door) for door in doors] == [first] * len(doors)
            _renewed(certs)
            for door in doors:
                wait_until(partial(_is_other, door, first), door)
        finally:
            stop.set()
            for load in loads:
                load.join()
        assert failed == []


def _ask(url: str, context: ssl.SSLContext, stop: threading.Event, failed: list[object]) -> None:
    """A new connection for each request."""
    while not stop.is_set():
        try:
            answer = httpx.get(f"{url}/topics", auth=ADMIN, verify=context, timeout=60)
            if answer.status_code != 200:
                failed.append(answer.text)
        except httpx.HTTPError as error:
            failed.append(error)


def _ask_kafka(address: str, context: ssl.SSLContext, stop: threading.Event, failed: list[object]) -> None:
    while not stop.is_set():
        try:
            with Line(address, context) as line:
                if line.plain(*ADMIN).error_code or not line.metadata().brokers:
                    failed.append("Kafka's door")
        except (OSError, EOFError) as error:
            failed.append(error)


def _place(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition("/")[2].rpartition(":")
    return host, int(port)


def _broken(certs: Certs) -> None:
    """A key that does not belong to the certificate."""
    shutil.copy(certs.file("ca.key"), certs.file("node.key"))


def _renewed(certs: Certs) -> None:
    """By the same authority."""
    Authority(certs.folder, 2).issue("node", "goqueue", ["localhost", "127.0.0.1"])


# --- signed tokens at Kafka's door ------------------------------------------------------------------------------


def test_librdkafka_comes_in_by_a_token(encrypted: SecureNode, issuer: Issuer) -> None:
    assert AdminClient(_by_token(encrypted, issuer.token())).list_topics(timeout=20).brokers


def test_librdkafka_is_told_that_its_token_is_wrong(encrypted: SecureNode) -> None:
    errors: list[KafkaError] = []
    conf: dict[str, Any] = {**_by_token(encrypted, Issuer().token()), "error_cb": errors.append}
    client = AdminClient(conf)

    def refused() -> bool:
        client.poll(0.1)
        return any(one.code() == KafkaError._AUTHENTICATION for one in errors)

    wait_until(refused)


def _by_token(node: SecureNode, token: str) -> dict[str, Any]:
    conf = node.confluent("OAUTHBEARER", "", "")
    del conf["sasl.username"], conf["sasl.password"]
    return {**conf, "oauth_cb": lambda _: (token, 4_102_444_800.0)}


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    async def token(self) -> str:
        return self._token


@pytest.mark.asyncio
async def test_aiokafka_comes_in_by_a_token(encrypted: SecureNode, issuer: Issuer) -> None:
    assert encrypted.certs is not None
    options: dict[str, object] = {
        "bootstrap_servers": encrypted.node.kafka,
        "security_protocol": "SASL_SSL",
        "ssl_context": encrypted.certs.context(),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": _Tokens(issuer.token()),
    }
    async with AIOKafkaProducer(**options) as producer:
        await producer.send_and_wait("by-token", b"hello")
    async with AIOKafkaConsumer("by-token", auto_offset_reset="earliest", **options) as consumer:
        assert (await consumer.getone()).value == b"hello"
