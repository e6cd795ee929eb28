"""Exactly once under SIGKILL: the driver, its JVM, Python workers and the node die at random moments of an archive.

The short form kills the driver once. `GOQUEUE_LONG_TESTS=1` makes it over 100 batches with all kinds of deaths.
"""

from __future__ import annotations

import contextlib
import faulthandler
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from bench.node_process import NodeProcess
from tests.long import LONG
from tests.pipeline.topics import Row, contents, fill, make_topic
from tests.pipeline.victims import Victim, free_address
from tests.waiting import wait_until

BATCHES, KILLS, SECONDS = (160, 25, 2_400) if LONG else (8, 1, 400)
BATCH_ROWS = 60
TOPICS = {"killed-a": 3, "killed-b": 2}
DEATHS = ("driver", "all", "worker", "node") if LONG else ("driver", "all")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 60), pytest.mark.xdist_group("jvm")]


def test_no_message_is_lost_or_doubled_whoever_dies(tmp_path: Path) -> None:
    if LONG:
        faulthandler.cancel_dump_traceback_later()  # the usual limit of one test is shorter than this one
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    lake = tmp_path / "lake"
    flags = ("--kafka", free_address(), "--rest", free_address())
    with NodeProcess(tmp_path / "data", *flags) as node:
        for topic, partitions in TOPICS.items():
            make_topic(node, topic, partitions)
            rows = BATCHES * BATCH_ROWS // len(TOPICS)
            fill(node, topic, [Row(b"%d" % n, b"k%d" % (n % 13)) for n in range(rows)])
        archive_under_fire(node, lake, random.Random(seed))
        check(node, lake)


def archive_under_fire(node: NodeProcess, lake: Path, chance: random.Random) -> None:
    """Kills again and again, and then lets the archive end."""
    deadline = time.monotonic() + SECONDS
    left = KILLS
    while True:
        with start(node, lake) as archiver:
            while left and not archiver.is_over:
                wait_for_the_next_batch(archiver, lake, deadline)
                strike(archiver, node, chance)
                left -= 1
            if archiver.is_over and archiver.process.returncode < 0:
                continue
            assert archiver.process.wait(max(1.0, deadline - time.monotonic())) == 0, archiver.told
            assert not left, f"the archive ended with {left} deaths to come"
            return


def start(node: NodeProcess, lake: Path) -> Victim:
    arguments = (node.kafka, node.url, str(lake), str(BATCH_ROWS), *TOPICS)
    return Victim(lake.parent / "archiver.log", "tests.pipeline.lake.archiver", *arguments)


def commits(lake: Path) -> int:
    return len(list((lake / "messages/_delta_log").glob("*.json")))


def wait_for_the_next_batch(archiver: Victim, lake: Path, deadline: float) -> None:
    seen = commits(lake)
    left = deadline - time.monotonic()
    wait_until(lambda: commits(lake) != seen or archiver.is_over, lambda: archiver.told, left)


def strike(archiver: Victim, node: NodeProcess, chance: random.Random) -> None:
    """At a random moment of the batch."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        archiver.process.wait(chance.uniform(0, 0.6))
    match chance.choice(DEATHS):
        case "driver":
            archiver.kill_driver()
        case "all":
            archiver.kill_all()
        case "worker":
            archiver.kill_worker()
        case _:
            node.kill()
            node.start()


def check(node: NodeProcess, lake: Path) -> None:
    """Every message once, in as many batches as there had to be."""
    table = DeltaTable(str(lake / "messages"))
    columns = ["topic", "partition", "offset", "key", "value"]
    rows = table.to_pyarrow_table(columns=columns).to_pylist()
    found = Counter(tuple(row[name] for name in columns) for row in rows)
    expected = Counter(
        (topic, one.partition, one.offset, one.key, one.value) for topic in TOPICS for one in contents(node, topic)
    )
    assert found == expected
    assert sum(one.get("operation") == "WRITE" for one in table.history()) >= BATCHES
