"""`python -m bench.queue_profile`: where a node's time goes while a queue is drained, by py-spy's samples."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bench.node_process import NodeProcess
from bench.queue import run_load
from bench.storage import scratch

COUNT = 500_000
CONSUMERS = 4
SECONDS = 4
PARTS = {
    "HTTP and JSON": ("uvicorn", "httptools", "starlette", "goqueue/edge"),
    "taking: what is ready, leases, receipts": (
        "service/consume",
        "service/handing",
        "service/lease",
        "service/queue_views",
        "core/lanes",
        "drive/lane_index",
    ),
    "acknowledging: receipts, the book of what is done": ("service/leasing", "service/receipts", "base/leases"),
    "reading messages from the log": (
        "drive/lane_reader",
        "drive/batch_cache",
        "format/slices",
        "decode (goqueue/format",
        "decode.<locals>.<listcomp> (goqueue/format",
    ),
    "the machine and its book, for both": ("core/delivery",),
    "durable records: building, checksum, append": (
        "drive/delivery_runner",
        "drive/partition",
        "goqueue/log",
        "format/",
    ),
    "positions of groups": ("service/positions", "core/groups", "service/groups"),
}
OTHER = "the event loop and everything else"


def main() -> None:
    with scratch() as root, NodeProcess(root / "node") as node:
        port = urlsplit(node.url).port or 0
        run_load("fill", "goqueue", port, 0, COUNT)
        with tempfile.NamedTemporaryFile() as raw:
            watching = threading.Thread(target=_watch, args=(node.pid, raw.name))
            watching.start()
            found = run_load("drain", "goqueue", port, CONSUMERS, 0, COUNT)
            watching.join()
            samples = Counter(dict(_shares(Path(raw.name).read_text().splitlines())))
    print(f"{found['rate']:,.0f} msg/s with {CONSUMERS} consumers, while watched")
    for part, count in samples.most_common():
        print(f"{count / samples.total():6.1%}  {part}")


def _watch(pid: int, path: str) -> None:
    options = ["--duration", str(SECONDS), "--rate", "500", "--format", "raw", "--output", path]
    subprocess.run(
        [str(Path(sys.executable).parent / "py-spy"), "record", "--pid", str(pid), *options],
        check=True,
        capture_output=True,
    )


def _shares(lines: list[str]) -> Iterator[tuple[str, int]]:
    """Each sample counts for the innermost frame that belongs to a part. Idle threads are not sampled."""
    found: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        if "serve" in stack:
            found[_part_of(stack.split(";"))] += int(count)
    return iter(found.items())


def _part_of(frames: list[str]) -> str:
    for frame in reversed(frames):
        for part, places in PARTS.items():
            if any(place in frame for place in places):
                return part
    return OTHER


if __name__ == "__main__":
    main()
