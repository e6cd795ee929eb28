"""Commands against a broker with security on: keys from contexts and files, TLS, and no secret in what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.node_process import NodeProcess
from goqueue.cli.copy_parts import parse_place
from goqueue.cli.failures import Misused
from goqueue.cli.kafka_config import kafka_options
from goqueue.client import Client
from tests.cli.running import goqueue
from tests.door.security.secure import SecureNode, make_certs, secure_settings

PASSWORD = "a pass=word"


class Secured(NamedTuple):
    secure: SecureNode
    folder: Path
    token: str

    @property
    def url(self) -> str:
        return self.secure.node.url.replace("127.0.0.1", "localhost")

    @property
    def kafka(self) -> str:
        return "kafka://" + self.secure.node.kafka.replace("127.0.0.1", "localhost")

    @property
    def ca(self) -> str:
        assert self.secure.certs is not None
        return self.secure.certs.ca

    def file(self, *lines: str) -> str:
        """Settings of a Kafka client."""
        made = self.folder / "client.properties"
        made.write_text("\n".join(("# of a client", "security.protocol = SASL_SSL", *lines)) + "\n")
        return str(made)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    certs = make_certs(tmp_path_factory.mktemp("secured-certs"))
    settings = {**secure_settings(folder), **certs.settings()}
    with NodeProcess(folder / "data", settings=settings) as node, SecureNode(node, certs) as secure:
        secure.user("ada", PASSWORD)
        made = Secured(secure, folder, secure.key("ada")["token"])
        with Client(made.url, key=made.token, ca_file=made.ca) as client:
            client.create_topic("orders", partitions=2)
            client.create_topic("copied", partitions=2)
            client.publish_many("orders", [f"{number}" for number in range(50)])
        yield made


@pytest.fixture
def environ(secured: Secured, tmp_path: Path) -> dict[str, str]:
    """With a context that has key and authority."""
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    (tmp_path / "key").write_text(secured.token + "\n")
    flags = ("--key-file", str(tmp_path / "key"), "--ca-file", secured.ca)
    done = goqueue("context", "add", "safe", "--server", secured.url, *flags, env=env)
    assert done.exit_code == 0, done.stderr
    return env


def scram(secured: Secured, password: str = PASSWORD) -> str:
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="{password}";'
    return secured.file(
        "sasl.mechanism=SCRAM-SHA-512",
        f"sasl.jaas.config={login}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={secured.ca}",
    )


def test_copies_go_in_and_out_with_keys_and_certificates_on_both_sides(
    secured: Secured, environ: dict[str, str], tmp_path: Path
) -> None:
    there = f"{secured.kafka}/copied"
    flags = ("--target-config", scram(secured), "--resume", "night")
    for copied in (50, 0):
        done = goqueue("copy", "context://safe/orders", there, *flags, env=environ)
        assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, f"Copied {copied} messages."), done.stderr
    by_key = [f"sasl.username={secured.token.partition('.')[0]}", f"sasl.password={secured.token.partition('.')[2]}"]
    config = secured.file("sasl.mechanisms=PLAIN", *by_key, f"ssl.ca.location={secured.ca}")
    back = tmp_path / "back.jsonl"
    done = goqueue("copy", there, f"file:{back}", "--source-config", config, env=environ)
    assert (done.exit_code, done.stderr) == (0, "Copied 50 messages.\n")
    found = sorted(int(json.loads(line)["value"]) for line in back.read_text().splitlines())
    assert found == list(range(50))


def test_a_wrong_password_and_a_wrong_authority_are_told_without_the_secret(
    secured: Secured, environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_certs(tmp_path_factory.mktemp("others")).ca
    login = ("sasl.mechanism=PLAIN", "sasl.username=ada", f"sasl.password={PASSWORD}")
    trusting = secured.file(*login, f"ssl.ca.location={other}")
    done = goqueue("copy", f"{secured.kafka}/orders", "-", "--source-config", trusting, env=environ)
    assert done.exit_code == 3 and PASSWORD not in done.output
    done = goqueue("copy", f"{secured.kafka}/orders", "-", "--source-config", scram(secured, "not it"), env=environ)
    assert done.exit_code == 3 and "not it" not in done.output


@pytest.mark.parametrize(("kind", "over"), [("queue", "grpc"), ("consume", "kafka")])
def test_load_is_put_on_it_through_every_door(secured: Secured, kind: str, over: str) -> None:
    env = {"GOQUEUE_KEY": secured.token, "GOQUEUE_CA_FILE": secured.ca}
    flags = ("--over", over, "--rate", "40", "--duration", "1s", "-o", "json")
    done = goqueue("bench", kind, *flags, server=secured.url, env=env)
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)[-1]["latency_ms"]["count"] == 40


def test_secrets_are_not_taken_from_the_command_line() -> None:
    for place in ("kafka://ada:secret@localhost:9092/orders", "https://ada:secret@localhost/orders"):
        with pytest.raises(Misused, match="context") as refused:
            parse_place(place)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("security.protocol=TLS", "SASL_SSL"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", "SCRAM-SHA-512"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.username"),
        ("acks=all", "'acks'"),
        ("security.protocol=SSL\nssl.ca.location=/nowhere", "/nowhere .* PEM"),
        ("security.protocol=SSL\nssl.key.location=/nowhere", "ssl.certificate.location"),
    ],
)
def test_a_file_that_is_wrong_says_what_to_write(lines: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong"
    file.write_text(lines)
    with pytest.raises(Misused, match=told):
        kafka_options(str(file))
    done = goqueue("copy", "orders", "file:x", "--source-config", str(file))
    assert done.exit_code == 2 and "kafka://" in done.stderr
