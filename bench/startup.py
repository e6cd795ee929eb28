"""How long a node with a thousand topics and five thousand partitions takes to be ready: after a stop and a kill."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from bench.node_process import NodeProcess
from bench.report import Figure
from bench.storage import batch_of, sync
from goqueue.base.limits import KIB
from goqueue.base.metadata import Commit
from goqueue.core.cluster.records import TopicRecord, encode
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.format.batch import verified_header
from goqueue.log.appending import RollRule
from goqueue.log.home import OpenSegments, SegmentHome
from goqueue.log.real_disk import RealDisk
from goqueue.log.recovery import open_log
from goqueue.log.stats import StorageStats

TOPICS = 1_000
PARTITIONS = 5  # of each
SHARDS = 8
SECONDS_MAX = 5.0


def startup_figures(root: Path) -> Iterator[Figure]:
    fill(root / "data", TOPICS, PARTITIONS)
    node = NodeProcess(root / "data", "--shards", str(SHARDS))
    count = f"{TOPICS * PARTITIONS:,} partitions"
    yield _started(node, f"a node with {count} is ready after kill -9")
    node.kill()
    yield _started(node, f"with {count} after kill -9 once more")
    node.stop()
    yield _started(node, f"with {count} after a clean stop")
    node.stop()


def _started(node: NodeProcess, name: str) -> Figure:
    began = time.perf_counter()
    node.start()
    spent = time.perf_counter() - began
    used = f"{node.cpu_seconds():.1f} s of processor"
    return Figure(name, f"{spent:.1f} s", used, f"under {SECONDS_MAX:.0f} s", spent < SECONDS_MAX)


def fill(data_dir: Path, topics: int, partitions: int) -> None:
    """A directory as a killed node leaves it: a few synced batches in every partition, no index of the last segment."""
    data_dir.mkdir()
    disk = RealDisk(data_dir)
    shards = [tuple((number + one) % SHARDS for one in range(partitions)) for number in range(topics)]
    records = [
        TopicRecord(f"topic-{number:04d}", f"id-{number}", partitions, {}, 1, shards=shards[number])
        for number in range(topics)
    ]
    # What is measured is a start after the process died, not after the power did.
    with patch("os.fsync", _nothing), patch("os.fdatasync", _nothing):
        asyncio.run(_write_records(disk, records))
        for record in records:
            for partition in range(partitions):
                _write_log(disk, record, partition)


def _nothing(fd: int) -> None:
    pass


async def _write_records(disk: RealDisk, records: list[TopicRecord]) -> None:
    async def here(work):  # type: ignore[no-untyped-def]
        return work()

    store = EmbeddedMetadata(disk, here)
    await store.open()
    for begin in range(0, len(records), 100):
        await store.commit(Commit({f"topics/{one.name}": encode(one) for one in records[begin : begin + 100]}))


def _write_log(disk: RealDisk, record: TopicRecord, partition: int) -> None:
    home = SegmentHome(disk, f"logs/{record.name}/{partition}", 4 * KIB, OpenSegments(), StorageStats())
    log, _ = open_log(home, RollRule(1 << 30, 1 << 40), record.id)
    batch = batch_of(4 * KIB)
    for _ in range(3):
        log.append(batch, verified_header(batch), 0, 1_000)
    sync(log)
