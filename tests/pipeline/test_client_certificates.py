"""Spark's connector and sink against a node that takes only clients with a certificate, at every door."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.pipeline.link.cluster import cluster
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import NodeUnreachable, PipelineError
from goqueue.pipeline.link.identity import NodeIdentity, split_identity, with_identity
from goqueue.pipeline.options import read_options, write_options
from goqueue.pipeline.source.errors import BadOption
from tests.door.security.secure import Certs, make_certs, secure_settings
from tests.pipeline.running import run_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


class Place(NamedTuple):
    node: NodeProcess
    certs: Certs
    others: Certs  # of an authority that the node does not know

    @property
    def url(self) -> str:
        return self.node.url.replace("127.0.0.1", "localhost")

    @property
    def kafka(self) -> str:
        return self.node.kafka.replace("127.0.0.1", "localhost")

    def options(self, name: str = "ada") -> dict[str, str]:
        files = {"certFile": self.certs.file(f"{name}.crt"), "certKeyFile": self.certs.file(f"{name}.key")}
        return {"url": self.url, "caFile": self.certs.ca, **files}

    def identity(self, cert: str = "", key: str = "") -> NodeIdentity:
        return NodeIdentity(ca_file=self.certs.ca, cert_file=cert, cert_key_file=key)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("certificates")
    certs = make_certs(tmp_path_factory.mktemp("ours"), "ada")
    others = make_certs(tmp_path_factory.mktemp("others"), "ada")
    settings = {**secure_settings(folder), **certs.settings("required")}
    with NodeProcess(folder / "data", settings=settings) as node:
        yield Place(node, certs, others)


def test_spark_writes_reads_and_streams_with_a_certificate(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    options = place.options()
    with Client(place.url, ca_file=place.certs.ca, cert=(options["certFile"], options["certKeyFile"])) as client:
        for topic in ("orders", "copies"):
            client.create_topic(topic, partitions=2)

    def found(topic: str) -> list[int]:
        frame = spark.read.format("goqueue").options(**options).option("subscribe", topic).load()
        return sorted(int(row[0]) for row in frame.selectExpr("CAST(value AS STRING)").collect())

    frame = spark.range(0, 30, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")
    frame.write.format("goqueue").mode("append").options(**options).option("topic", "orders").save()
    assert found("orders") == list(range(30))
    stream = spark.readStream.format("goqueue").options(**options).option("subscribe", "orders")
    rows = stream.option("startingOffsets", "earliest").load()
    run_once(rows.writeStream.format("goqueue").options(**options).option("topic", "copies"), tmp_path / "checkpoint")
    assert found("copies") == list(range(30))


def test_certificate_and_key_may_be_one_file(place: Place, tmp_path: Path) -> None:
    both = tmp_path / "ada.pem"
    both.write_text("".join(Path(place.certs.file(name)).read_text() for name in ("ada.key", "ada.crt")))
    assert isinstance(cluster(with_identity(place.kafka, place.identity(str(both)))).topics(), dict)


def test_without_options_the_environment_names_the_files(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_CA_FILE", place.certs.ca)
    monkeypatch.setenv("GOQUEUE_CERT_FILE", place.certs.file("ada.crt"))
    monkeypatch.setenv("GOQUEUE_CERT_KEY_FILE", place.certs.file("ada.key"))
    assert isinstance(cluster(place.kafka).topics(), dict)
    with Client(place.url) as rest, Client(f"grpcs://localhost:{place.node.grpc.rpartition(':')[2]}") as grpc:
        assert rest.topics() == grpc.topics()


@pytest.mark.parametrize(
    ("shown", "told"),
    [(False, "it may want a client certificate, see certFile"), (True, "it may not trust the client certificate in ")],
)
def test_another_certificate_or_none_is_refused_in_one_line(place: Place, shown: bool, told: str) -> None:
    files = [place.others.file(name) for name in ("ada.crt", "ada.key")] if shown else []
    identity = place.identity(*files)
    asked = (
        lambda: cluster(with_identity(place.kafka, identity), 0.5, 0.5).topics(),
        lambda: doors(None, with_identity(place.url, identity), 0.5),
    )
    for ask in asked:
        with pytest.raises(NodeUnreachable, match=told) as failure:
            ask()
        assert "\n" not in str(failure.value)


def test_files_that_are_not_right_are_told_at_once(place: Place, tmp_path: Path) -> None:
    cert, key = place.certs.file("ada.crt"), place.certs.file("ada.key")
    locked = str(tmp_path / "locked.key")
    subprocess.run(
        ["openssl", "pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked], check=True, timeout=60
    )
    cases = [
        ((key, cert), "PEM"),
        ((cert, place.others.file("ada.key")), "(?i)mismatch"),
        ((str(tmp_path / "nothing.crt"), key), "No such file"),
        ((cert, locked), "encrypted"),
    ]
    for files, told in cases:
        for address in (place.kafka, place.url):
            with pytest.raises(PipelineError, match=told) as failure:
                place.identity(*files).client(address) if "://" in address else cluster(
                    with_identity(address, place.identity(*files))
                ).topics()
            assert "\n" not in str(failure.value)


def test_a_key_without_a_certificate_is_refused(place: Place) -> None:
    options = {"url": place.url, "certKeyFile": "/k"}
    for ask in (lambda: read_options({**options, "subscribe": "t"}), lambda: write_options(options)):
        with pytest.raises(BadOption, match="certFile"):
            ask()
    with pytest.raises(PipelineError, match="certFile"):
        split_identity("localhost:9092#certKeyFile=/k")
    with pytest.raises(BadOption, match="certFile and certKeyFile"):
        read_options({"url": place.url, "subscribe": "t", "kafka.ssl.keystore.location": "/k.jks"})
