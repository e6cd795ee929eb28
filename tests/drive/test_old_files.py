"""Data directories of earlier versions: topics, settings, producer ids and identity in files of their own."""

from __future__ import annotations

import msgspec
import pytest

from goqueue.base.commands import Isolation
from goqueue.core.cluster.records import TopicRecord, decode
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, publish

OLD_FACTS = {
    "identity": {"cluster_id": "the-cluster"},
    "producer-ids": {"below": 7_000},
    "dynamic-settings": {"node": {"log.retention.ms": "1234567"}, "cluster": {"log.segment.bytes": "1048576"}},
}


def made_old(disk: SimDisk) -> SimDisk:
    """The same directory as an earlier version would have left it."""
    disk.make_dirs("topics")
    for file in disk.names("metadata/topics"):
        entry = decode_crc_json(disk.read_file(f"metadata/topics/{file}"), dict[str, object])
        record = decode(str((entry or {})["value"]), TopicRecord)
        assert record is not None
        old = {key: value for key, value in msgspec.structs.asdict(record).items() if key != "shards"}
        disk.put(f"topics/{record.name}.topic", encode_crc_json(old))
        for partition in disk.names(f"logs/{record.name}"):
            path = f"logs/{record.name}/{partition}/meta.json"
            meta = decode_crc_json(disk.read_file(path), dict[str, object]) or {}
            disk.put(path, encode_crc_json({key: meta[key] for key in meta if key not in ("topic_id", "epochs")}))
    for path, fact in OLD_FACTS.items():
        disk.put(path, encode_crc_json(fact))
    disk.remove_tree("metadata")
    disk.sync_dir("")
    return disk.crash("kept")


def old_directory(*topics: str) -> SimDisk:
    disk = SimDisk()

    async def fill(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop) as broker:
            for name in topics:
                await broker.topics.create(name, 2, {"retention.ms": "77777"})
                await publish(broker, name, "one", "two", key="k")
            await broker.topics.delete(topics[-1])

    run_virtually(fill)
    return made_old(disk)


def check(disk: SimDisk) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop) as broker:
            assert [one.name for one in broker.topics.list()] == ["a", "b.c"]
            for name in ("a", "b.c"):
                view = broker.topics.describe(name)
                assert (view.num_partitions, view.overrides, view.messages) == (2, {"retention.ms": "77777"}, 2)
                (full,) = [one.partition for one in view.partitions if one.messages]
                partition = broker.topics.require(name).partition(full)
                found = await partition.read(0, 1 << 20, Isolation.READ_UNCOMMITTED)
                assert b"one" in found and b"two" in found
                assert partition.epoch_at(0) == 0
                assert broker.metadata.image.partitions_in(0) == len(broker.metadata.image.topics()) + 2
            assert broker.metadata.image.cluster_id == "the-cluster"
            assert await broker.producer_ids.next_id() >= 7_000
            assert broker.node_config.dynamic.node == {"log.retention.ms": "1234567"}
            assert broker.node_config.dynamic.cluster == {"log.segment.bytes": "1048576"}

    run_virtually(scenario)


def old_names(disk: SimDisk) -> list[str]:
    return [*disk.names("topics"), *(name for name in OLD_FACTS if disk.read_file(name) is not None)]


def test_an_old_directory_opens_as_it_is_and_is_taken_over_once() -> None:
    disk = old_directory("a", "b.c", "gone")
    assert len(old_names(disk)) > 3
    check(disk)
    assert old_names(disk) == []
    check(disk)


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_power_cut_while_it_is_taken_over_loses_nothing(mode: CrashMode) -> None:
    old = old_directory("a", "b.c", "gone")

    async def start(disk: SimDisk, loop: VirtualLoop) -> None:
        async with broker_on(disk, loop):
            pass

    probe = old.crash("kept")
    run_virtually(lambda loop: start(probe, loop))
    for crash_at in range(0, probe.steps, 5):
        disk = old.crash("kept")
        disk.crash_at = crash_at
        with pytest.raises(PowerCut):
            run_virtually(lambda loop, disk=disk: start(disk, loop))  # type: ignore[misc]
        check(disk.crash(mode, crash_at))


def test_a_deletion_that_an_earlier_version_had_begun_is_finished() -> None:
    disk = old_directory("a", "b.c", "half", "gone")
    disk.rename("topics/half.topic", "topics/half.deleting")
    assert "half" in disk.names("logs")
    check(disk)
    assert "half" not in disk.names("logs")


def test_what_cannot_be_read_is_left_alone_with_its_data() -> None:
    disk = old_directory("a", "b.c", "bad", "gone")
    disk.flip_bit("topics/bad.topic", 30)
    check(disk)
    assert disk.names("topics") == ["bad.topic"] and "bad" in disk.names("logs")
    disk.flip_bit("topics/bad.topic", 30)

    async def repaired(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop) as broker:
            assert broker.topics.describe("bad").messages == 2

    run_virtually(repaired)
