"""What a node weighs: a thousand partitions at rest, and a reader ten gigabytes behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx

from bench.node_process import NodeProcess
from bench.report import Figure
from bench.storage import batch_of, open_in, sync
from goqueue.base.limits import GIB, MIB
from goqueue.format.batch import strides, verified_header


def memory_figures(root: Path) -> Iterator[Figure]:
    yield idle_partitions(root / "idle", 1000)
    yield far_reader(root, 10 * GIB)


def idle_partitions(data_dir: Path, count: int) -> Figure:
    """Every partition holds messages, then the node starts anew and idles."""
    node = NodeProcess(data_dir).start()
    httpx.post(f"{node.url}/topics", json={"name": "wide", "num_partitions": count}).raise_for_status()
    messages = [{"value": "x" * 100, "partition": number} for number in range(count)]
    for _ in range(3):
        httpx.post(f"{node.url}/topics/wide/messages", json={"messages": messages}).raise_for_status()
    written = node.rss_bytes()
    node.stop()
    with node:
        httpx.get(f"{node.url}/topics").raise_for_status()
        rss = node.rss_bytes()
    return Figure(
        f"a node with {count:,} partitions at rest",
        f"{rss / MIB:.0f} MiB",
        f"{written / MIB:.0f} MiB after writing to all",
        "under 200 MB",
        max(rss, written) < 200e6,
    )


def far_reader(root: Path, size: int) -> Figure:
    """Reads a log from its start in this process, in steps of 1 MiB, and watches its own memory."""
    log = open_in(root, "far")
    batch = batch_of(MIB)
    while log.size_bytes < size:
        log.append(batch, verified_header(batch), 0, 1_000)
        if log.wants_seal:
            while job := log.begin_seal():
                job.run()
                log.finish_seal(job)
    sync(log)
    log.close()
    log = open_in(root, "far")
    before, highest, offset = _rss(), 0, 0
    while offset < log.end_offset:
        data = log.read(offset, MIB, log.end_offset, wait=True)
        *_, (_, _, _, last) = strides(data)
        offset = last + 1
        highest = max(highest, _rss())
    grown = highest - before
    return Figure(
        f"a reader {size / GIB:.0f} GiB behind adds",
        f"{grown / MIB:.1f} MiB",
        "to what was there before",
        "under 16 MiB",
        grown < 16 * MIB,
    )


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
