"""Strangers' programs with security on, unchanged: kcat, Kafka's Java tools, the AWS CLI, kafka-python over TLS."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.door.kafka.apache import find_jars, run_tool
from tests.door.security.secure import SecureNode, make_certs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError

KCAT, AWS = shutil.which("kcat") or shutil.which("kafkacat"), shutil.which("aws")
PASSWORD = "correct-horse-battery"


def made(secure: SecureNode, name: str) -> str:
    secure.user(name, PASSWORD)
    assert secure.admin.post("/topics", json={"name": name, "num_partitions": 1}).status_code == 201
    return name


# --- kcat ------------------------------------------------------------------------------------------------------------


def kcat(secure: SecureNode, name: str, *arguments: str, lines: str = "", **more: str) -> Any:
    assert KCAT is not None
    settings = {
        **secure.confluent("SCRAM-SHA-512", name, PASSWORD),
        **{k.replace("_", "."): v for k, v in more.items()},
    }
    chosen = [f"-X{key}={value}" for key, value in settings.items() if key not in ("bootstrap.servers", "log_level")]
    command = [KCAT, "-b", secure.node.kafka, *chosen, *arguments]
    return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
def test_kcat_over_tls_with_scram(encrypted: SecureNode, tmp_path: Path) -> None:
    name = made(encrypted, "kcat")
    sent = kcat(encrypted, name, "-P", "-t", name, lines="a\nb\n")
    assert sent.returncode == 0, sent.stderr
    assert kcat(encrypted, name, "-C", "-t", name, "-e", "-q").stdout.split() == ["a", "b"]
    other = make_certs(tmp_path)
    for mistake, told in (
        ({"sasl_password": "other"}, "authentication fail"),
        ({"ssl_ca_location": other.ca}, "certificate verify failed"),
        ({"sasl_mechanism": "GSSAPI"}, ""),
        ({"security_protocol": "PLAINTEXT"}, ""),
    ):
        refused = kcat(encrypted, name, "-L", "-m", "5", **mistake)
        assert refused.returncode != 0 and told in refused.stderr.lower(), refused.stderr


# --- Java ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafkas_java_producer_over_tls(encrypted: SecureNode, tmp_path: Path, mechanism: str) -> None:
    jars = find_jars(tmp_path)
    if jars is None:
        pytest.skip("Apache Kafka's jars or Java are not here")
    assert encrypted.certs is not None
    authority = encrypted.certs.ca
    name = made(encrypted, f"java-{mechanism.lower()}")
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"

    def produce(password: str) -> subprocess.CompletedProcess[str]:
        login = (
            f'org.apache.kafka.common.security.{module}LoginModule required username="{name}" password="{password}";'
        )
        properties = tmp_path / "client.properties"
        properties.write_text(
            f"bootstrap.servers={encrypted.node.kafka}\nsecurity.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={login}\nssl.truststore.type=PEM\nssl.truststore.location={authority}\n"
        )
        asked = ("--topic", name, "--num-records", "100", "--record-size", "10", "--throughput", "-1")
        return run_tool(
            jars, "org.apache.kafka.tools.ProducerPerformance", *asked, "--producer.config", str(properties)
        )

    done = produce(PASSWORD)
    assert "100 records sent" in done.stdout, done.stdout + done.stderr
    if mechanism == "SCRAM-SHA-512":
        assert "SaslAuthenticationException" in (wrong := produce("other")).stdout + wrong.stderr


# --- the AWS CLI -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(AWS is None, reason="the AWS CLI is not installed")
def test_the_aws_cli_signs(secure: SecureNode) -> None:
    secure.user("cli", PASSWORD)
    key = secure.key("cli", signs=True)

    def aws(secret: str, *arguments: str, key_id: str = key["id"]) -> Any:
        assert AWS is not None
        shown = {"AWS_ACCESS_KEY_ID": key_id, "AWS_SECRET_ACCESS_KEY": secret, "AWS_DEFAULT_REGION": "us-east-1"}
        command = [AWS, "sqs", "--endpoint-url", secure.node.sqs, "--output", "text", *arguments]
        environ = {**os.environ, **shown, "AWS_MAX_ATTEMPTS": "1", "AWS_CONFIG_FILE": os.devnull}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)

    url = aws(key["secret"], "create-queue", "--queue-name", "by-cli").stdout.strip()
    assert url.endswith("/by-cli")
    assert aws(key["secret"], "send-message", "--queue-url", url, "--message-body", "hello").returncode == 0
    assert "hello" in aws(key["secret"], "receive-message", "--queue-url", url).stdout
    assert "SignatureDoesNotMatch" in aws("wrong", "list-queues").stderr
    assert "InvalidClientTokenId" in aws("wrong", "list-queues", key_id="AKIAUNKNOWN").stderr
    assert secure.admin.delete(f"/admin/keys/{key['id']}").status_code == 204
    assert "InvalidClientTokenId" in aws(key["secret"], "list-queues").stderr


# --- kafka-python ----------------------------------------------------------------------------------------------------


def test_kafka_python_over_tls(encrypted: SecureNode, tmp_path: Path) -> None:
    name = made(encrypted, "kafka-python-tls")
    assert encrypted.certs is not None
    chosen = {
        "bootstrap_servers": encrypted.node.kafka,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": name,
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": encrypted.certs.ca,
    }
    producer = KafkaProducer(**chosen)
    assert producer.send(name, b"hello").get(30).offset == 0
    producer.close()
    consumer = KafkaConsumer(name, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **chosen)
    assert next(consumer).value == b"hello"
    consumer.close()
    other = make_certs(tmp_path)
    with pytest.raises(KafkaError):
        KafkaProducer(**{**chosen, "ssl_cafile": other.ca})
