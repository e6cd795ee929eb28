"""Readers that say their rack read from the replica there, and from the leader when that one fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from bench.cluster_process import ClusterProcess
from goqueue.pipeline.link.addresses import addresses_of
from goqueue.pipeline.link.cluster import PATIENCE_S, cluster
from goqueue.pipeline.link.identity import NodeIdentity, split_identity, with_identity
from goqueue.pipeline.link.nearest import AVOID_S, NearestReplicas
from goqueue.pipeline.link.place import OffsetRange, Place
from goqueue.pipeline.link.reading import read_arrow
from goqueue.pipeline.options import read_options, write_options
from tests.cluster.clients import make_topic
from tests.cluster.test_nearest import SIZE, RackedCluster, bytes_read_at, near, publish
from tests.etcd import etcd_program
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
PLACE, OTHER, NODE = Place("t", 0), Place("t", 1), ("near", 1)
ROWS = 5_000


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_replica_that_failed_is_left_alone_for_a_while() -> None:
    clock = Clock()
    nearest = NearestReplicas("a", clock)
    assert (nearest.of(PLACE), nearest.rack_for(PLACE)) == (None, "a")
    nearest.send(PLACE, NODE)
    assert nearest.of(PLACE) == NODE
    nearest.fail(NODE)
    assert (nearest.of(PLACE), nearest.rack_for(PLACE)) == (None, ""), "the leader answers itself"
    nearest.send(OTHER, NODE)
    assert (nearest.of(OTHER), nearest.rack_for(OTHER)) == (None, ""), "no partition is read there"
    clock.now += AVOID_S
    assert (nearest.rack_for(PLACE), nearest.rack_for(OTHER)) == ("a", "a")
    nearest.send(PLACE, NODE)
    assert nearest.of(PLACE) == NODE
    nearest.send(OTHER, None)
    assert (nearest.of(OTHER), nearest.rack_for(OTHER)) == (None, ""), "nobody knows its address"


def test_the_rack_is_an_option_of_reads_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"kafka.bootstrap.servers": "localhost:9092", "Kafka.Client.Rack": "eu-1a"}
    address = read_options({**given, "subscribe": "t"}).kafka
    assert address == "localhost:9092#rack=eu-1a"
    assert split_identity(address) == ("localhost:9092", NodeIdentity(rack="eu-1a"))
    assert write_options(given).kafka == "localhost:9092", "rows go to the leader anyway"
    monkeypatch.setenv("GOQUEUE_RACK", "eu-1b")
    assert (NodeIdentity().client_rack(), NodeIdentity(rack="eu-1a").client_rack()) == ("eu-1b", "eu-1a")


# --- three nodes -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def racked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    etcd_program()
    with RackedCluster(tmp_path_factory.mktemp("racked")) as running:
        wait_until(lambda: running.state()["features"][0]["level"], "not every node knows it")
        yield running


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_reads_in_its_rack(spark: SparkSession, racked: ClusterProcess) -> None:
    topic = make_topic(racked, 1)
    publish(racked, topic, 0, 500)
    leader, follower = near(racked, topic)
    source = spark.read.format("goqueue").option("kafka.bootstrap.servers", racked.bootstrap)
    rows = source.option("subscribe", topic).option("kafka.client.rack", f"rack-{follower}").load()

    def is_read_there() -> bool:
        return rows.count() == 500 and bytes_read_at(racked, follower, topic) > 0

    wait_until(is_read_there, "the leader does not know yet what the other has")
    there, here = bytes_read_at(racked, follower, topic), bytes_read_at(racked, leader, topic)
    assert sorted(int(row[0]) for row in rows.selectExpr("STRING(value)").collect()) == list(range(500))
    wait_until(
        lambda: bytes_read_at(racked, follower, topic) >= there + 500 * SIZE
    )  # pages of metrics are kept a while
    assert bytes_read_at(racked, leader, topic) == here
    elsewhere = source.option("subscribe", topic).option("kafka.client.rack", "nowhere").load()
    assert elsewhere.count() == 500
    wait_until(lambda: bytes_read_at(racked, leader, topic) >= here + 500 * SIZE)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_read_goes_on_at_the_leader_when_the_replica_dies(racked: ClusterProcess) -> None:
    topic = make_topic(racked, 1)
    publish(racked, topic, 0, ROWS)
    leader, follower = near(racked, topic)
    address = with_identity(racked.bootstrap, NodeIdentity(rack=f"rack-{follower}"))

    known, place = cluster(address, PATIENCE_S, PATIENCE_S), Place(topic, 0)
    replica = addresses_of(racked.nodes[follower].kafka)

    def read() -> Iterator[pa.RecordBatch]:
        return read_arrow(address, [OffsetRange(topic, 0, 0, ROWS)], ["value"], batch_bytes=SIZE)

    pieces = read()
    found = values(next(pieces))
    assert len(found) < ROWS and [known.nearest.of(place)] == replica and bytes_read_at(racked, leader, topic) == 0
    racked.kill(follower)
    assert found + [one for piece in pieces for one in values(piece)] == list(range(ROWS))
    assert known.nearest.of(place) is None
    assert [one for piece in read() for one in values(piece)] == list(range(ROWS)), "nobody is sent there again"
    racked.heal()


def values(piece: pa.RecordBatch) -> list[int]:
    return [int(one) for one in piece["value"].to_pylist()]
