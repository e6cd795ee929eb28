"""The node's number, and leaders' epochs over elections and kills, as Kafka clients see them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import msgspec

from bench.node_process import NodeProcess
from goqueue.base.metadata import Commit
from goqueue.core.cluster.records import SHARDS, ShardRecord, decode, encode
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.log.real_disk import RealDisk
from goqueue.sim.time import in_place
from goqueue.wire.messages import find_coordinator, offset_for_leader_epoch
from tests.door.kafka import raw
from tests.door.kafka.raw import Line
from tests.door.test_startup import run_serve

FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
EARLIEST, LATEST = -2, -1


def elect(data_dir: Path, epoch: int) -> None:
    """A later epoch for every shard, as a controller writes it while the node is down."""

    async def change() -> None:
        store = EmbeddedMetadata(RealDisk(data_dir), in_place)
        await store.open()
        for key, entry in (await store.read()).entries.items():
            if key.startswith(SHARDS):
                record = decode(entry.value, ShardRecord)
                assert record is not None
                await store.commit(Commit({key: encode(msgspec.structs.replace(record, epoch=epoch))}))

    asyncio.run(change())


def produced(line: Line, count: int) -> None:
    for _ in range(count):
        answer = line.ask(raw.produce_to("t", 0, raw.batch(b"v", timestamp_ms=1_000)), 12)
        assert answer.responses[0].partition_responses[0].error_code == 0


def epoch_end(line: Line, epoch: int, claimed: int = -1) -> tuple[int, int, int]:
    """(error, epoch, end offset)"""
    part = offset_for_leader_epoch.OffsetForLeaderPartition(0, claimed, epoch)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic("t", [part])
    found = line.ask(offset_for_leader_epoch.OffsetForLeaderEpochRequest(-1, [topic])).topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


def looked_up(line: Line, timestamp: int, claimed: int = -1) -> tuple[int, int, int]:
    found = line.ask(raw.offsets_of("t", 0, timestamp, claimed)).topics[0].partitions[0]
    return found.error_code, found.offset, found.leader_epoch


def test_epochs_end_where_the_next_leader_began_also_after_kills(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data")
    for epoch, count in ((0, 3), (4, 2), (6, 5)):
        if epoch:
            elect(node.data_dir, epoch)
        node.start()
        with Line(node.kafka) as line:
            if not epoch:
                line.ask(raw.new_topic("t", 1))
            produced(line, count)
        node.kill()
    with node, Line(node.kafka) as line:
        partition = line.ask(raw.metadata_of("t")).topics[0].partitions[0]
        assert (partition.leader_epoch, partition.leader_id) == (6, 0)
        ends = [epoch_end(line, epoch) for epoch in (0, 3, 4, 5, 6)]
        assert ends == [(0, 0, 3), (0, 0, 3), (0, 4, 5), (0, 4, 5), (0, 6, 10)]
        assert epoch_end(line, 7) == (0, -1, -1), "nobody knows it yet"
        assert looked_up(line, EARLIEST) == (0, 0, 0) and looked_up(line, LATEST) == (0, 10, 6)
        for claimed, error in ((4, FENCED_LEADER_EPOCH), (9, UNKNOWN_LEADER_EPOCH), (6, 0)):
            assert epoch_end(line, 0, claimed)[0] == looked_up(line, EARLIEST, claimed)[0] == error


def test_a_node_has_the_number_it_was_given_and_keeps_it(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", settings={"GOQUEUE_NODE_ID": "7"})
    with node, Line(node.kafka) as line:
        line.ask(raw.new_topic("t", 2))
        told = line.ask(raw.metadata_of("t"))
        assert [one.node_id for one in told.brokers] == [7] and told.controller_id == 7
        for one in told.topics[0].partitions:
            assert (one.leader_id, list(one.replica_nodes), list(one.isr_nodes)) == (7, [7], [7])
        coordinator = line.ask(find_coordinator.FindCoordinatorRequest("g", 0, ["g"])).coordinators[0]
        assert coordinator.node_id == 7
        described = httpx.get(f"{node.url}/topics/t").json()
        assert {one["leader"] for one in described["partitions"]} == {7}
    free = {"GOQUEUE_KAFKA_LISTEN": "127.0.0.1:0", "GOQUEUE_SQS_LISTEN": "off", "GOQUEUE_GRPC_LISTEN": "off"}
    refused = run_serve("--data", str(node.data_dir), "--rest", "127.0.0.1:0", **free)
    assert refused.returncode == 1 and "wrong-node-id" in refused.stderr and "node 7" in refused.stderr
