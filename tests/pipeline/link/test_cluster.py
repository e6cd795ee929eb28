"""What a node has, asked over Kafka's door; and what happens while it is away."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.pipeline.link import connection
from goqueue.pipeline.link.addresses import addresses_of
from goqueue.pipeline.link.cluster import Cluster, Place, cluster
from goqueue.pipeline.link.errors import (
    BrokerRefused,
    CorruptData,
    Fenced,
    NodeUnreachable,
    OffsetOutOfLog,
    PipelineError,
    TopicNotFound,
)
from goqueue.pipeline.options import read_options
from goqueue.pipeline.source.readers import cluster_of
from tests.pipeline.link.shop import Txn, fixed_ports, new_topic, publish


@pytest.fixture
def ours(shared: NodeProcess) -> Iterator[Cluster]:
    found = Cluster(shared.kafka, 5.0)
    yield found
    found.close()


def test_topics_are_told_without_the_brokers_own(shared: NodeProcess, ours: Cluster) -> None:
    one, two = new_topic(shared, 1), new_topic(shared, 4)
    Txn(shared)  # the broker keeps books of transactions
    found = ours.topics()
    assert (found[one], found[two]) == (1, 4)
    assert not [name for name in found if name.startswith("__")]
    assert ours.partitions(two) == [0, 1, 2, 3]


def test_a_topic_that_is_not_there_is_not_made_by_asking(shared: NodeProcess, ours: Cluster) -> None:
    for _ in range(2):
        with pytest.raises(TopicNotFound, match="no nowhere on the node") as caught:
            ours.partitions("nowhere")
        assert caught.value.topic == "nowhere"
    for ask in (ours.earliest, lambda places: ours.latest(places, "read_committed")):
        with pytest.raises(TopicNotFound, match="no nowhere/2 on the node"):
            ask([Place("nowhere", 2)])
    assert httpx.get(f"{shared.url}/topics/nowhere").status_code == 404


def test_offsets_are_told_of_many_partitions_at_once(shared: NodeProcess, ours: Cluster) -> None:
    one, two = new_topic(shared, 2), new_topic(shared)
    publish(shared, one, ["a", "b", "c"], 1)
    publish(shared, two, ["d"])
    places = [Place(two, 0), Place(one, 1), Place(one, 0)]
    assert ours.earliest(places) == dict.fromkeys(places, 0)
    assert ours.latest(places, "read_committed") == {Place(one, 0): 0, Place(one, 1): 3, Place(two, 0): 1}
    assert ours.latest([], "read_committed") == {}
    with pytest.raises(PipelineError, match="use read_committed or read_uncommitted"):
        ours.latest(places, "snapshot")


def test_an_open_transaction_holds_back_readers_of_committed_data(shared: NodeProcess, ours: Cluster) -> None:
    place = Place(new_topic(shared), 0)
    publish(shared, place.topic, ["a"])
    txn = Txn(shared)
    txn.begin()
    txn.publish(place.topic, "b", "c")
    assert ours.latest([place], "read_committed") == {place: 1}
    assert ours.latest([place], "read_uncommitted") == {place: 3}
    txn.end("commit")
    assert ours.latest([place], "read_committed") == {place: 4}


def test_offsets_are_found_by_time(shared: NodeProcess, ours: Cluster) -> None:
    place = Place(new_topic(shared), 0)
    for time_ms in (1_000, 2_000, 3_000):
        publish(shared, place.topic, ["x"], timestamp=time_ms)
    asked = {0: 0, 1_000: 0, 1_001: 1, 3_000: 2, 3_001: None, -5: 0}
    assert {when: ours.at_time([place], {place: when})[place] for when in asked} == asked


def test_many_threads_may_ask_at_once(shared: NodeProcess, ours: Cluster) -> None:
    place = Place(new_topic(shared), 0)
    publish(shared, place.topic, ["a", "b"])
    found: list[object] = []
    asking = [
        threading.Thread(target=lambda: found.extend(ours.latest([place], "read_committed") for _ in range(30)))
        for _ in range(8)
    ]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert found == [{place: 2}] * 240


# --- processes -------------------------------------------------------------------------------------------------


def _told_by_child(kafka: str, topic: str, answers: multiprocessing.Queue[object]) -> None:
    answers.put((id(cluster(kafka)), cluster(kafka).partitions(topic)))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(shared: NodeProcess) -> None:
    topic = new_topic(shared, 2)
    mine = cluster(shared.kafka)
    assert cluster(shared.kafka) is mine and mine.partitions(topic) == [0, 1]
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    child = fork.Process(target=_told_by_child, args=(shared.kafka, topic, answers))
    child.start()
    told = answers.get(timeout=30)
    child.join()
    assert told == (told[0], [0, 1]) and told[0] != id(mine)
    assert mine.partitions(topic) == [0, 1]
    mine.close()


@pytest.mark.parametrize(
    "error",
    [
        PipelineError("text"),
        TopicNotFound("t"),
        OffsetOutOfLog(Place("t", 1), 5, 9),
        OffsetOutOfLog(Place("t", 1), 5, 9, "told"),
        NodeUnreachable("host:1", 3.0, "refused"),
        BrokerRefused(10, "too large"),
        Fenced(47, "fenced"),
        CorruptData(Place("t", 1), 7, "why."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_pass_between_processes(error: PipelineError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


# --- addresses and strangers -----------------------------------------------------------------------------------


def test_addresses_are_read_as_users_write_them() -> None:
    assert addresses_of("a:1, b:2,[::1]:3,") == [("a", 1), ("b", 2), ("::1", 3)]
    for wrong in ("", ",", "host", "host:", ":5", "host:port", "host:0", "host:70000", "http://host:80"):
        with pytest.raises(PipelineError, match="HOST:PORT"):
            addresses_of(wrong)


@contextmanager
def stranger(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that is no node."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                with line:
                    line.recv(1_000)
                    answer(line)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    serving.join()


def test_the_rest_door_is_told_from_kafkas(shared: NodeProcess) -> None:
    with pytest.raises(PipelineError, match=r"does not speak Kafka's protocol \(it answers in HTTP\).*option `url`"):
        Cluster(shared.url.removeprefix("http://"), 5.0).topics()


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"\xff\xff\xff\xff", "an answer of -1 bytes"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "the answer to request 99 came instead of 1"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00", "ends inside a field"),
    ],
)
def test_junk_is_told_at_once(sent: bytes, told: str) -> None:
    with stranger(lambda line: line.sendall(sent)) as address, pytest.raises(PipelineError, match=told):
        Cluster(address, 60.0).topics()


def test_a_server_that_knows_none_of_our_requests_is_told_so() -> None:
    nothing = b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    with (
        stranger(lambda line: line.sendall(nothing)) as address,
        pytest.raises(BrokerRefused, match="does not speak Meta"),
    ):
        Cluster(address, 60.0).topics()


def test_a_node_that_says_nothing_counts_as_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 0.1)
    monkeypatch.setattr(connection, "CONNECT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(NodeUnreachable, match=f"No node answered at {address} for 0.5 s .timed out."):
            Cluster(address, 0.5).topics()


# --- a node that is away ---------------------------------------------------------------------------------------


def test_an_address_where_nobody_is_is_named_when_patience_ends() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(NodeUnreachable, match=address) as caught:
            Cluster(address, 0.3).topics()
        assert 0.3 <= time.monotonic() - began < 10
        assert caught.value.address == address


def test_one_that_never_answered_is_waited_for_only_shortly() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(NodeUnreachable, match=f"No node answered at {address} for 0.3 s"):
            Cluster(address, 3600.0, 0.3).topics()
        options = read_options({"kafka.bootstrap.servers": address, "subscribe": "orders"})
        assert cluster_of(options).patience().seconds == 5.0
        asked = {"kafka.bootstrap.servers": address, "subscribe": "orders", "kafkaConsumer.pollTimeoutMs": "90000"}
        assert cluster_of(read_options(asked)).patience().seconds == 90.0


def test_one_that_has_answered_is_waited_for_with_all_patience(shared: NodeProcess) -> None:
    ours = Cluster(shared.kafka, 60.0, 5.0)
    assert ours.patience().seconds == 5.0
    ours.topics()
    assert ours.patience().seconds == 60.0
    ours.close()


def test_a_node_that_restarts_is_waited_for(tmp_path: Path) -> None:
    flags, release = fixed_ports()
    release()
    node = NodeProcess(tmp_path / "data", *flags)
    with node:
        place = Place(new_topic(node), 0)
        publish(node, place.topic, ["a", "b"])
        ours = Cluster(node.kafka, 60.0)
        assert ours.latest([place], "read_committed") == {place: 2}
        node.kill()
        starting = threading.Thread(target=node.start)
        starting.start()
        assert ours.latest([place], "read_committed") == {place: 2}
        starting.join()
        ours.close()


def test_the_first_of_several_addresses_that_answers_is_used(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        ours = Cluster(f"127.0.0.1:{unheard.getsockname()[1]},{shared.kafka}", 5.0)
        assert ours.partitions(topic) == [0]
        ours.close()
