"""A node with two listeners: stock clients through each, each told the address that it can use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from bench.node_process import NodeProcess
from goqueue.cli.cluster_dir import free_ports
from tests.door.security.secure import make_certs


class TwoListeners(NodeProcess):
    @property
    def external(self) -> str:
        found = re.search(r"external\s+(\S+)", self.block)
        assert found is not None, self.block
        return found[1]


@pytest.fixture(scope="module")
def advertised() -> str:
    """An address that clients outside are told, which is not how the node calls itself."""
    return f"localhost:{free_ports(1)}"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, advertised: str) -> Iterator[TwoListeners]:
    port = advertised.rpartition(":")[2]
    settings = {
        "GOQUEUE_KAFKA_EXTERNAL_LISTEN": f"127.0.0.1:{port}",
        "GOQUEUE_KAFKA_EXTERNAL_ADVERTISED": f"localhost:{int(port) - 7}+{{id}}",
        "GOQUEUE_NODE_ID": "7",
    }
    with TwoListeners(tmp_path_factory.mktemp("two") / "data", settings=settings) as node:
        yield node


def brokers_at(bootstrap: str) -> list[str]:
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30)
    return [f"{one.host}:{one.port}" for one in found.brokers.values()]


def test_each_listener_tells_its_own_address(two: TwoListeners, advertised: str) -> None:
    assert brokers_at(two.kafka) == [two.kafka]
    assert brokers_at(two.external) == [advertised]


def test_stock_clients_write_through_one_and_read_through_the_other(two: TwoListeners) -> None:
    for by, other in ((two.kafka, two.external), (two.external, two.kafka)):
        topic = f"t-{uuid.uuid4().hex[:8]}"
        producer = Producer({"bootstrap.servers": by, "enable.idempotence": True})
        producer.produce(topic, b"through one")
        assert producer.flush(30) == 0
        group = {"group.id": topic, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": other, **group})
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None and message.value() == b"through one"
        consumer.close()


def test_both_are_in_the_node_s_configuration_and_in_the_cluster_s_state(two: TwoListeners, advertised: str) -> None:
    admin = AdminClient({"bootstrap.servers": two.kafka})
    (found,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "7")]).values()
    told = found.result(30)["advertised.listeners"].value
    assert told == f"PLAINTEXT://127.0.0.1:0,EXTERNAL://{advertised}"
    (node,) = httpx.get(f"{two.url}/cluster/state").json()["nodes"]
    assert (node["addresses"]["kafka"], node["addresses"]["kafka_external"]) == (two.kafka, advertised)


def test_the_second_listener_speaks_tls_as_the_first(tmp_path: Path) -> None:
    certs = make_certs(tmp_path)
    settings = {
        "GOQUEUE_KAFKA_EXTERNAL_LISTEN": "127.0.0.1:0",
        "GOQUEUE_KAFKA_TLS_CERT_FILE": certs.file("node.crt"),
        "GOQUEUE_KAFKA_TLS_KEY_FILE": certs.file("node.key"),
    }
    with TwoListeners(tmp_path / "data", settings=settings) as node:
        for address in (node.kafka, node.external):
            chosen = {"security.protocol": "ssl", "ssl.ca.location": certs.ca}
            admin = AdminClient({"bootstrap.servers": address, **chosen})
            assert [one.port for one in admin.list_topics(timeout=30).brokers.values()] == [int(address[-5:])]


def test_a_second_listener_that_others_can_reach_needs_protection_too(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from goqueue.cli import main; main()", "serve", "--data", str(tmp_path / "data")]
    environ = {**os.environ, "GOQUEUE_KAFKA_EXTERNAL_LISTEN": "0.0.0.0:0"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode and re.search(r"kafka\.external_listen is 0\.0\.0\.0:0.*unprotected", done.stderr)
