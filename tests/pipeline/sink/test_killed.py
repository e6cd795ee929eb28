"""Exactly once under SIGKILL: the driver, its JVM, Python workers and the node die at random moments of a copy.

The short form kills once. `GOQUEUE_LONG_TESTS=1 pytest -o faulthandler_timeout=3000` makes it over 100 batches
with all kinds of deaths.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from tests.long import LONG
from tests.pipeline.sink.copier import BEGUN
from tests.pipeline.topics import Row, Stored, contents, fill, make_topic
from tests.pipeline.victims import Victim, free_address
from tests.waiting import wait_until

BATCHES, KILLS, SECONDS = (120, 25, 2_400) if LONG else (6, 1, 400)
BATCH_ROWS = 60
DEATHS = ("driver", "all", "worker", "node") if LONG else ("driver", "all")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 60), pytest.mark.xdist_group("jvm")]


def test_no_row_is_lost_doubled_or_overtaken_whoever_dies(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    flags = ("--kafka", free_address(), "--rest", free_address())
    with NodeProcess(tmp_path / "data", *flags) as node:
        make_topic(node, "from")
        make_topic(node, "to", 3)
        fill(node, "from", [Row(b"%d" % n, b"k%d" % (n % 13)) for n in range(BATCHES * BATCH_ROWS)])
        copy_under_fire(node, tmp_path, random.Random(seed))
        stored = contents(node, "to")
        print(f"{len(contents(node, 'to', 'read_uncommitted')) - len(stored)} rows were written in vain")
        check_rows(stored, BATCHES * BATCH_ROWS)
        assert batches_done(tmp_path) == BATCHES


def copy_under_fire(node: NodeProcess, directory: Path, chance: random.Random) -> None:
    """Kills again and again, and then lets the copy end."""
    deadline = time.monotonic() + SECONDS
    left = KILLS
    while True:
        with start(node, directory) as copy:
            while left and not copy.is_over:
                wait_for_the_next_batch(copy, directory, deadline)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    copy.process.wait(chance.uniform(0, batch_seconds(directory)))
                strike(copy, node, chance, batches_done(directory))
                left -= 1
            ended = copy.process.wait(max(1.0, deadline - time.monotonic()))
            if ended < 0:
                continue
            assert ended == 0, copy.told
            assert not left, f"the copy ended with {left} deaths to come"
            return


def start(node: NodeProcess, directory: Path) -> Victim:
    arguments = (node.kafka, "from", "to", str(directory / "checkpoint"), str(BATCH_ROWS))
    return Victim(directory / "copier.log", "tests.pipeline.sink.copier", *arguments)


def batches_done(directory: Path) -> int:
    """By the number of the last one: Spark forgets those before the last hundred."""
    noted = (directory / "checkpoint" / "commits").glob("*")
    return max((int(path.name) + 1 for path in noted if path.name.isdecimal()), default=0)


def wait_for_the_next_batch(copy: Victim, directory: Path, deadline: float) -> None:
    """A batch of this copy: one from the JVM of a dead driver may still come while the next copy starts, and what
    Spark asks Python before there are tasks is not tried again."""
    wait_until(lambda: copy.has_said(BEGUN) or copy.is_over, lambda: copy.told, deadline - time.monotonic())
    seen = batches_done(directory)
    left = deadline - time.monotonic()
    wait_until(lambda: batches_done(directory) != seen or copy.is_over, lambda: copy.told, left)


def batch_seconds(directory: Path) -> float:
    """How long the last batch took, unless it died on its way: every moment of the next should be hit at times."""
    last = batches_done(directory) - 1
    begun = (directory / "checkpoint" / "offsets" / str(last)).stat().st_mtime
    return min(0.5, (directory / "checkpoint" / "commits" / str(last)).stat().st_mtime - begun)


def strike(copy: Victim, node: NodeProcess, chance: random.Random, batch: int) -> None:
    death = chance.choice(DEATHS)
    print(f"{death} dies in batch {batch}")
    match death:
        case "driver":
            copy.kill_driver()
        case "all":
            copy.kill_all()
        case "worker":
            copy.kill_worker()
        case _:
            node.kill()
            node.start()


def check_rows(stored: Iterable[Stored], count: int) -> None:
    by_key: defaultdict[bytes | None, list[int]] = defaultdict(list)
    for one in stored:
        by_key[one.key].append(int(one.value or b"-1"))
    assert sorted(n for found in by_key.values() for n in found) == list(range(count))
    assert all(found == sorted(found) for found in by_key.values()), "a row overtook another of its key"
