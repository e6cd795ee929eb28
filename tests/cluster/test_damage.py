"""Real nodes on disks that lose bits, ends and power: nothing acknowledged is lost, and replicas are equal again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from bench.cluster_process import ClusterProcess
from goqueue.drive.disk_note import DiskNote
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from tests.cluster.clients import Writer, check_kept, make_topic, read_all
from tests.etcd import etcd_program
from tests.long import LONG
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
NODES = range(3)
SETTINGS = {"GOQUEUE_LOG_SCRUB_INTERVAL_MS": "200", "GOQUEUE_LOG_SCRUB_BYTES_PER_S": "100000000"}


@pytest.fixture(scope="module", params=["interval", "always"] if LONG else ["always"])
def damageable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    etcd_program()
    settings = {**SETTINGS, "GOQUEUE_LOG_FSYNC": request.param}
    with ClusterProcess(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


@pytest.fixture
def cluster(damageable: ClusterProcess) -> ClusterProcess:
    damageable.heal()
    return damageable


def new_topic(cluster: ClusterProcess) -> str:
    return make_topic(cluster, 1, segment_bytes="16384")


def log_files(cluster: ClusterProcess, node: int, topic: str) -> list[Path]:
    return sorted((cluster.nodes[node].data_dir / "logs" / topic / "0").glob("*.log"))


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position, 2 if position < 0 else 0)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))


def lose_power(cluster: ClusterProcess, node: int, topic: str, bytes_lost: int) -> None:
    """As if the machine had gone down: what is on its disk says so, and the end of a log is gone."""
    path = cluster.nodes[node].data_dir / "disk-note"
    note = decode_crc_json(path.read_bytes(), DiskNote)
    assert note is not None
    path.write_bytes(encode_crc_json(msgspec.structs.replace(note, boot="another")))
    if bytes_lost:
        last = log_files(cluster, node, topic)[-1]
        with last.open("r+b") as file:
            file.truncate(max(0, last.stat().st_size - bytes_lost))


def metric(cluster: ClusterProcess, node: int, name: str) -> int:
    text = httpx.get(f"{cluster.nodes[node].url}/metrics", timeout=10).text
    return int(float(next(line for line in text.splitlines() if line.startswith(f"goqueue_{name} ")).split()[1]))


def check_whole(cluster: ClusterProcess, topic: str, writer: Writer) -> None:
    cluster.heal()
    assert writer.failed == []
    check_kept(writer, read_all(cluster, topic))
    wait_until(lambda: len(contents(cluster, topic)) == 1, lambda: sorted(map(len, contents(cluster, topic))))


def contents(cluster: ClusterProcess, topic: str) -> set[bytes]:
    return {b"".join(path.read_bytes() for path in log_files(cluster, node, topic)) for node in NODES}


def leader_of(cluster: ClusterProcess, topic: str) -> int:
    return wait_until(lambda: [one] if (one := cluster.leader_of(topic)) is not None else [], "a leader")[0]


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_bit_that_flips_while_a_node_runs_is_found_and_mended(cluster: ClusterProcess, role: str) -> None:
    topic = new_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more(600)
        leader = leader_of(cluster, topic)
        victim = leader if role == "leader" else (leader + 1) % 3
        before = metric(cluster, victim, "storage_segments_mended_total")
        wait_until(lambda: len(log_files(cluster, victim, topic)) > 2, "segments")
        flip(log_files(cluster, victim, topic)[0], 200)
        wait_until(lambda: metric(cluster, victim, "storage_segments_mended_total") > before, cluster.logs)
        writer.wait_more(100)
    check_whole(cluster, topic, writer)


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("where", ["first segment", "last batch"])
def test_a_bit_that_flips_while_a_node_is_down_is_mended(cluster: ClusterProcess, role: str, where: str) -> None:
    topic = new_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more(600)
        leader = leader_of(cluster, topic)
        victim = leader if role == "leader" else (leader + 1) % 3
        cluster.kill(victim)
        files = log_files(cluster, victim, topic)
        flip(files[0], 200) if where == "first segment" else flip(files[-1], -3)
        writer.wait_more(100)
        cluster.heal()
        writer.wait_more(100)
    check_whole(cluster, topic, writer)


def test_who_lost_the_end_of_a_log_does_not_take_it_from_the_others(cluster: ClusterProcess) -> None:
    topic = new_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more(300)
        leader = leader_of(cluster, topic)
        for node in NODES:
            cluster.kill(node)
        flip(log_files(cluster, leader, topic)[-1], -3)
        cluster.start(leader, *(node for node in NODES if node != leader))
        writer.wait_more(100)
    check_whole(cluster, topic, writer)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_node_that_lost_power_and_the_end_of_a_log_gets_it_again(cluster: ClusterProcess, role: str) -> None:
    topic = new_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more(300)
        leader = leader_of(cluster, topic)
        victim = leader if role == "leader" else (leader + 1) % 3
        cluster.kill(victim)
        lose_power(cluster, victim, topic, 500)
        cluster.heal()
        writer.wait_more(100)
    check_whole(cluster, topic, writer)


def test_what_was_acknowledged_is_there_when_all_lost_power(cluster: ClusterProcess) -> None:
    topic = new_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more(300)
        for node in NODES:
            cluster.kill(node)
            lose_power(cluster, node, topic, 0)
        cluster.start(*NODES)
        writer.wait_more(100)
    check_whole(cluster, topic, writer)
