"""Topics survive what happens to a node, and change under way."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from goqueue.base.errors import InvalidConfig, InvalidName, InvalidPartitions, TopicExists, UnknownTopic
from goqueue.base.ids import TopicPartition
from goqueue.base.metadata import Entry
from goqueue.core.cluster.records import TopicRecord, decode, encode
from goqueue.core.groups.requests import OffsetCommit
from goqueue.drive import topic_table
from goqueue.drive.own_topics import OWN_TOPICS
from goqueue.drive.topic_records import SINGLE
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.cuts import CUT_STEP, first_cut
from tests.service.brokers import broker_on, fetch_all, publish, settings


def test_a_topic_and_its_settings_survive_a_restart() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            made = await broker.topics.create("t", 4, {"retention.ms": 5000, "cleanup.policy": "delete, compact"})
            assert made.config["cleanup.policy"] == "delete,compact"
            await broker.topics.alter("t", {"retention.ms": None, "segment.bytes": "2048"}, 6)
        async with broker_on(disk, loop) as broker:
            found = broker.topics.describe("t")
            assert (found.id, found.num_partitions) == (made.id, 6)
            assert found.overrides == {"cleanup.policy": "delete,compact", "segment.bytes": "2048"}
            assert found.config["retention.ms"] == "604800000"

    run_virtually(scenario)


def test_bad_topics_are_refused_with_every_mistake_named() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            for name in ("", "..", ".", "a/b", "a" * 300, "tö", "a b", "a\x00"):
                with pytest.raises(InvalidName):
                    await broker.topics.create(name, 1, {})
            with pytest.raises(InvalidConfig) as refused:
                await broker.topics.create("t", 1, {"retention.ms": "soon", "nonsense": 1, "segment.bytes": 1})
            assert set(refused.value.detail["mistakes"]) == {"retention.ms", "nonsense", "segment.bytes"}  # type: ignore[call-overload]
            for count in (0, -1, 10_001):
                with pytest.raises(InvalidPartitions):
                    await broker.topics.create("t", count, {})
            await broker.topics.create("t", 3, {})
            with pytest.raises(TopicExists):
                await broker.topics.create("t", 3, {})
            with pytest.raises(InvalidPartitions):
                await broker.topics.alter("t", {}, 2)
            with pytest.raises(InvalidConfig):
                await broker.topics.alter("t", {"nonsense": None}, None)

    run_virtually(scenario)


def test_a_deleted_topic_is_gone_and_its_name_is_free() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "old")
            await broker.topics.delete("t")
            with pytest.raises(UnknownTopic):
                broker.topics.describe("t")
            await broker.topics.create("t", 1, {})
            assert await publish(broker, "t", "new") == [0]
        assert disk.names("trash") == []
        async with broker_on(disk, loop) as broker:
            assert [one.value for one in await fetch_all(broker, "t", 0)] == [b"new"]

    run_virtually(scenario)


def test_foreign_files_in_the_data_directory_stop_nothing() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "v")
        disk.make_dirs("logs/stranger/0")
        disk.make_dirs("logs/t/not-a-number")
        for path in ("README", "logs/notes.txt", "topics/x.topic", "topics/y.txt", "logs/t/0/todo", "trash/x"):
            disk.put(path, b"hello")
        disk.put("logs/stranger/0/00000000000000000000.log", b"data of unknown origin")
        async with broker_on(disk, loop) as broker:
            assert [one.value for one in await fetch_all(broker, "t", 0)] == [b"v"]
            await broker.topics.create("stranger", 1, {})
            assert broker.topics.describe("stranger").messages == 0
            assert await publish(broker, "stranger", "mine") == [0]
        assert any("stranger" in name for name in disk.names("orphans")), "unknown data is kept"

    run_virtually(scenario)


def test_a_damaged_topic_record_is_left_alone_with_its_data() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("a", 1, {})
            await broker.topics.create("b", 1, {})
            await publish(broker, "a", "v")
        disk.flip_bit("metadata/topics/a.v", 30)
        async with broker_on(disk, loop) as broker:
            assert [one.name for one in broker.topics.list()] == ["b"]
        disk.flip_bit("metadata/topics/a.v", 30)
        async with broker_on(disk, loop) as broker:
            assert [one.value for one in await fetch_all(broker, "a", 0)] == [b"v"]

    run_virtually(scenario)


@pytest.mark.parametrize("mode", ["kept", "dropped", "torn"])
def test_a_power_cut_at_any_moment_leaves_topics_whole_or_absent(mode: CrashMode) -> None:
    """Create, publish (fsync=always), change, delete, create again; what was answered holds."""

    async def life(disk: SimDisk, loop: VirtualLoop, done: list[str]) -> None:
        async with broker_on(disk, loop, settings(fsync="always")) as broker:
            await broker.topics.create("t", 1, {})
            done.append("created")
            await publish(broker, "t", "one")
            done.append("published")
            await broker.topics.alter("t", {"retention.ms": 7}, 2)
            done.append("altered")
            await broker.topics.delete("t")
            done.append("deleted")
            await broker.topics.create("t", 1, {})
            done.append("created again")
            await publish(broker, "t", "two")
            done.append("published again")

    async def until_power_cut(disk: SimDisk, loop: VirtualLoop, done: list[str]) -> None:
        cut = loop.create_future()
        disk.on_power_cut = lambda: None if cut.done() else cut.set_result(None)
        living = loop.create_task(life(disk, loop, done))
        await asyncio.wait({living, cut}, return_when="FIRST_COMPLETED")
        if living.done():
            living.exception()
        living.cancel()

    async def check(disk: SimDisk, loop: VirtualLoop, done: list[str]) -> None:
        async with broker_on(disk, loop, settings(fsync="always")) as broker:
            names = [one.name for one in broker.topics.list()]
            after = done[-1] if done else ""
            if after in ("created", "published", "published again", "created again"):
                assert names == ["t"]
            if names:
                values = [one.value for one in await fetch_all(broker, "t", 0)]
                if after == "published":
                    assert values == [b"one"]
                if after == "published again":
                    assert values == [b"two"]
                if after == "deleted":
                    assert values == []
                assert await publish(broker, "t", "more") == [len(values)]
            else:
                await broker.topics.create("t", 1, {})
                assert await publish(broker, "t", "more") == [0]

    disk = SimDisk()
    run_virtually(lambda loop: life(disk, loop, []))
    for crash_at in range(first_cut(mode), disk.steps, CUT_STEP):
        broken = SimDisk(crash_at)
        done: list[str] = []
        run_virtually(lambda loop, broken=broken, done=done: until_power_cut(broken, loop, done))  # type: ignore[misc]
        after = broken.crash(mode, crash_at)
        run_virtually(lambda loop, after=after, done=done: check(after, loop, done))  # type: ignore[misc]


@pytest.mark.parametrize("slow", [0, 1_000_000])
def test_all_partitions_are_opened_whether_the_disk_is_slow_or_not(slow: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_table, "OPENED_FIRST", 3)
    monkeypatch.setattr(topic_table, "OPENING_SLOW", slow)

    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            for count in (1, 2, 30):
                await broker.topics.create(f"t{count}", count, {})
                await publish(broker, f"t{count}", f"{count}")
        async with broker_on(disk, loop) as broker:
            found = {topic.name: [one.at.partition for one in topic.partitions] for topic in broker.topics.all()}
            assert found == {f"t{count}": list(range(count)) for count in (1, 2, 30)}
            assert [broker.topics.describe(name).messages for name in found] == [1, 1, 1]

    run_virtually(scenario)


def test_the_power_cut_is_not_an_error_to_be_handled() -> None:
    assert not issubclass(PowerCut, Exception)


def _record_of(disk: SimDisk, name: str) -> TopicRecord:
    entry = _entry_of(disk, name)
    found = decode(entry.value, TopicRecord)
    assert found is not None
    return found


def _entry_of(disk: SimDisk, name: str) -> Entry:
    entry = decode_crc_json(disk.read_file(f"metadata/topics/{name}.v"), Entry)
    assert entry is not None
    return entry


@pytest.mark.parametrize("damage", ["settings", "partitions", "unreadable"])
def test_a_start_puts_right_what_an_older_node_let_users_do_to_its_own_topics(damage: str) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            for name in OWN_TOPICS:
                record = _record_of(disk, name)
                bad = msgspec.structs.replace(
                    record,
                    overrides={"cleanup.policy": "delete", "retention.ms": "1"}
                    if damage == "settings"
                    else record.overrides,
                    partitions=7 if damage == "partitions" else 1,
                )
                entry = msgspec.structs.replace(_entry_of(disk, name), value=encode(bad))
                note = b"not a note" if damage == "unreadable" else encode_crc_json(entry)
                disk.write_file(f"metadata/topics/{name}.v", note)
            await broker.groups.reset_offsets("g", [OffsetCommit("t", 0, 0)])
        async with broker_on(disk, loop) as broker:
            await asyncio.sleep(60)  # the cleaner looks at every log meanwhile
            assert broker.groups.offsets("g")[TopicPartition("t", 0)].offset == 0
            for name, config in OWN_TOPICS.items():
                view = broker.topics.describe(name)
                partitions = 1 if name in SINGLE else len(broker.metadata.image.shards())
                assert (view.overrides, view.num_partitions) == (config, partitions)
                assert _record_of(disk, name).overrides == config
        async with broker_on(disk, loop) as broker:
            assert broker.groups.offsets("g")[TopicPartition("t", 0)].offset == 0

    run_virtually(scenario)
