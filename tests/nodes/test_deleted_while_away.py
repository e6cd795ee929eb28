"""Topics that were deleted while a node was away: it gives back what it has of them when it starts again."""

from __future__ import annotations

import pytest

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import GONE_TOPICS_MAX
from goqueue.sim.disk import SimDisk
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_damage import bytes_of


def paths(disk: SimDisk, below: str) -> list[str]:
    return [f"{below}/{name}" for name in disk.names(below)]


def disk_of(nodes: Nodes) -> SimDisk:
    """Of the node that is away."""
    return nodes._disks[2]


async def filled(nodes: Nodes, *names: str) -> None:
    for name in names:
        await nodes.create(name, 2)
        for partition in range(2):
            await publish(nodes, name, partition, "before")
    logs = [
        log for name in names for broker in nodes.brokers.values() for log in broker.topics.require(name).partitions
    ]
    await until(lambda: all(log.end_offset == 1 for log in logs))


async def publish(nodes: Nodes, name: str, partition: int, value: str) -> None:
    command = PublishMessages(name, [InputMessage(None, value.encode(), partition=partition)])
    await patiently(lambda: nodes.any.routed(nodes.any.publish).messages(command))


def test_their_files_go_when_the_node_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        await filled(nodes, "kept", "gone", "again")
        nodes.kill(2, "kept")
        await nodes.until_led()
        for name in ("gone", "again"):
            await nodes.any.topics.delete(name)
        await nodes.create("again", 2)
        await publish(nodes, "again", 0, "after")
        assert paths(disk_of(nodes), "logs/gone") and paths(disk_of(nodes), "logs/again")
        await nodes.start(2)
        await nodes.until_known("again")
        disk = disk_of(nodes)
        assert paths(disk, "logs/kept") and not paths(disk, "logs/gone") and not paths(disk, "orphans")
        await until(lambda: not paths(disk, "trash"))
        at = TopicPartition("again", 0)
        await until(lambda: nodes.brokers[2].topics.require("again").partition(0).end_offset == 1)
        assert len(set(bytes_of(nodes, at).values())) == 1 and b"after" in bytes_of(nodes, at)[2]

    run_nodes(story, monkeypatch)


def test_only_the_last_ones_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.drive.topic_records.GONE_TOPICS_MAX", 3)
    assert GONE_TOPICS_MAX > 100

    async def story(nodes: Nodes) -> None:
        ids = []
        for number in range(5):
            await nodes.create(f"t{number}", 1)
            ids.append(nodes.any.topics.require(f"t{number}").record.id)
            await nodes.any.topics.delete(f"t{number}")
        await until(lambda: all(one.metadata.image.gone_topics() == ids[2:] for one in nodes.brokers.values()))

    run_nodes(story, monkeypatch)
