"""Spark's connector and sink against a node with security on: TLS, every way to log in, two tenants with one name.

What the file holds is in no plan, no log, no checkpoint and no error.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from scramp import ScramMechanism

from bench.node_process import NodeProcess
from goqueue.pipeline.link.cluster import cluster
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.identity import NodeIdentity, node_client, split_identity, with_identity
from goqueue.pipeline.link.login import LoginFailed, NodeLogin
from goqueue.pipeline.options import read_options
from goqueue.pipeline.source.errors import BadOption
from goqueue.wire.messages import metadata
from goqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from goqueue.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from goqueue.wire.shape import ClientApi
from tests.door.security.issuer import Issuer
from tests.door.security.secure import SecureNode, make_certs, secure_settings
from tests.pipeline.running import run_once
from tests.waiting import let_pass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
PASSWORD = "a password"
SCRAM = "SCRAM-SHA-512"


class Place(NamedTuple):
    """The node, and a folder with a file for each who asks there."""

    secure: SecureNode
    folder: Path
    secrets: list[str]
    issuer: Issuer

    @property
    def ca(self) -> str:
        assert self.secure.certs is not None
        return self.secure.certs.ca

    @property
    def url(self) -> str:
        return self.secure.node.url.replace("127.0.0.1", "localhost")

    @property
    def kafka(self) -> str:
        return self.secure.node.kafka.replace("127.0.0.1", "localhost")

    def options(self, who: str, mechanism: str = "PLAIN") -> dict[str, str]:
        found = {"url": self.url, "keyFile": str(self.folder / who), "caFile": self.ca}
        return found if mechanism == "PLAIN" else {**found, "kafka.sasl.mechanism": mechanism}

    def address(self, who: str, mechanism: str = "PLAIN") -> str:
        return with_identity(self.kafka, NodeIdentity(str(self.folder / who), self.ca, mechanism=mechanism))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """`anna` of tenant a has an API key, `bert` of b a password; sessions are short."""
    folder = tmp_path_factory.mktemp("secured")
    certs = make_certs(tmp_path_factory.mktemp("secured-certs"))
    issuer = Issuer()
    settings = {**secure_settings(folder), **certs.settings(), **issuer.publish(folder / "keys.json")}
    settings["GOQUEUE_SECURITY_SESSION_MS"] = "2000"
    with NodeProcess(folder / "data", settings=settings) as node, SecureNode(node, certs) as secure:
        made = Place(secure, folder, [PASSWORD], issuer)
        for tenant, name in (("a", "anna"), ("b", "bert")):
            assert secure.admin.post("/admin/tenants", json={"name": tenant}).status_code == 201
            secure.user(name, PASSWORD, tenant)
        key = secure.key("anna")
        made.secrets.append(key["secret"])
        (folder / "anna").write_text(key["token"] + "\n")
        (folder / "bert").write_text(f"bert:{PASSWORD}\n")
        token = issuer.token("bert")
        made.secrets.append(token)
        (folder / "bert-token").write_text(token + "\n")
        (folder / "wrong-token").write_text(Issuer().token("bert") + "\n")
        (folder / "wrong").write_text("bert:no password\n")
        for name in ("anna", "bert"):
            with node_client(with_identity(made.url, NodeIdentity(str(folder / name), made.ca))) as client:
                client.create_topic("orders", partitions=2)
        yield made


def written(spark: SparkSession, options: dict[str, str], values: range) -> None:
    frame = spark.range(values.start, values.stop, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("goqueue").mode("append").options(**options).option("topic", "orders").save()


def found(spark: SparkSession, options: dict[str, str], plans: list[str]) -> list[int]:
    """All values, and how Spark explains the read."""
    frame = spark.read.format("goqueue").options(**options).option("subscribe", "orders").load()
    plans.append(frame._jdf.queryExecution().toString())
    return sorted(int(row[0]) for row in frame.selectExpr("CAST(value AS STRING)").collect())


def test_spark_writes_and_reads_as_two_tenants_and_tells_no_secret(
    spark: SparkSession, place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "goqueue")
    anna, bert, token = place.options("anna"), place.options("bert", SCRAM), place.options("bert-token", "OAUTHBEARER")
    written(spark, anna, range(30))
    written(spark, bert, range(100, 105))
    written(spark, token, range(105, 110))
    plans: list[str] = []
    assert found(spark, anna, plans) == list(range(30))
    assert found(spark, bert, plans) == list(range(100, 110))
    stream = spark.readStream.format("goqueue").options(**place.options("anna")).option("subscribe", "orders")
    frame = stream.option("startingOffsets", "earliest").load()
    copied = frame.writeStream.format("goqueue").options(**bert).option("topic", "orders")
    told = run_once(copied, tmp_path / "checkpoint")
    assert found(spark, token, plans) == [*range(30), *range(100, 110)]
    seen = [*plans, repr(told), caplog.text, str(spark.sparkContext.getConf().getAll())]
    seen += [one.read_text(errors="replace") for one in (tmp_path / "checkpoint").rglob("*") if one.is_file()]
    assert len(seen) > 5 and "keyFile" in str(place.options("anna"))
    for secret in place.secrets:
        assert not any(secret in text for text in seen)


@pytest.mark.parametrize(
    ("who", "mechanism"),
    [("anna", "PLAIN"), ("bert", "SCRAM-SHA-256"), ("bert", "SCRAM-SHA-512"), ("bert-token", "OAUTHBEARER")],
)
def test_every_mechanism_is_taken_and_kept_up(place: Place, who: str, mechanism: str) -> None:
    connection = cluster(place.address(who, mechanism)).connect()
    for _ in range(2):
        answer = connection.ask(metadata.API, metadata.MetadataRequest(None, allow_auto_topic_creation=False))
        assert [one.name for one in answer.topics] == ["orders"]
        let_pass(1.7)  # a session has two seconds, and is renewed when most of that is over
    connection.close()


def test_a_node_that_does_not_know_the_password_is_another(place: Place) -> None:
    """Whoever stands between can take a login, and cannot answer it."""
    login = NodeLogin(NodeIdentity(str(place.folder / "bert"), mechanism="SCRAM-SHA-256"), "here")
    server = ScramMechanism("SCRAM-SHA-256").make_server(lambda _: (b"salt" * 4, b"s" * 32, b"k" * 32, 4096))

    def ask(api: ClientApi, request: SaslHandshakeRequest | SaslAuthenticateRequest) -> object:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse()
        text = bytes(request.auth_bytes).decode()
        if text.startswith("n,,"):
            server.set_client_first(text)
            return SaslAuthenticateResponse(auth_bytes=server.get_server_first().encode())
        return SaslAuthenticateResponse(auth_bytes=b"v=" + b64encode(b"x" * 32))

    with pytest.raises(LoginFailed, match="does not know the password"):
        login.show(ask)


@pytest.mark.parametrize(
    ("who", "mechanism"),
    [
        ("wrong", "PLAIN"),
        ("wrong", "SCRAM-SHA-256"),
        ("anna", "SCRAM-SHA-512"),
        ("wrong-token", "OAUTHBEARER"),
        ("anna", "OAUTHBEARER"),
    ],
)
def test_a_wrong_key_is_told_at_once_and_not_tried_again(place: Place, who: str, mechanism: str) -> None:
    with pytest.raises(LoginFailed, match="refuses the key") as failure:
        cluster(place.address(who, mechanism)).topics()
    assert (place.folder / who).read_text().strip() not in str(failure.value)


def test_a_file_that_is_not_there_is_told(place: Place) -> None:
    with pytest.raises(PipelineError, match="cannot be read"):
        cluster(place.address("nobody")).topics()


def test_a_wrong_authority_is_told_at_once(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = make_certs(tmp_path_factory.mktemp("others")).ca
    with pytest.raises(PipelineError, match="not trusted"):
        cluster(with_identity(place.kafka, NodeIdentity(str(place.folder / "anna"), other))).topics()


def test_without_a_key_the_node_does_not_answer(place: Place) -> None:
    with pytest.raises(PipelineError):
        cluster(with_identity(place.kafka, NodeIdentity("", place.ca)), 1.0, 1.0).topics()


def test_one_door_tells_the_other_with_the_same_files(place: Place) -> None:
    options = read_options({**place.options("anna"), "subscribe": "orders"})
    found = doors(options.kafka, options.url)
    for address in (found.kafka, found.url):
        assert split_identity(address)[1] == NodeIdentity(str(place.folder / "anna"), place.ca, True)
    with pytest.raises(PipelineError, match="set the option url"):  # which is a setting of the node: not a tenant's
        doors(place.address("anna"), None)


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("kafka.sasl.jaas.config", '… password="secret";', "keyFile"),
        ("kafka.ssl.truststore.password", "secret", "caFile"),
        ("kafka.sasl.mechanism", "GSSAPI", "OAUTHBEARER"),
    ],
)
def test_secrets_in_options_are_refused_with_advice_and_not_repeated(option: str, value: str, advice: str) -> None:
    with pytest.raises(BadOption, match=advice) as failure:
        read_options({"url": "http://localhost:1", "subscribe": "orders", option: value})
    assert "secret" not in str(failure.value)
