"""Spark copies a topic of a cluster exactly once while the nodes that lead are killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.cluster_process import ClusterProcess
from tests.long import LONG, only_long
from tests.pipeline.sink.copier import BEGUN
from tests.pipeline.sink.test_killed import BATCH_ROWS, batches_done, check_rows
from tests.pipeline.topics import Row, contents, fill, make_topic
from tests.pipeline.victims import Victim
from tests.waiting import wait_until

BATCHES, KILLS, SECONDS = (60, 15, 2_400) if LONG else (6, 2, 600)

pytestmark = [only_long, pytest.mark.slow, pytest.mark.timeout(SECONDS + 60), pytest.mark.xdist_group("jvm")]


def test_no_row_is_lost_doubled_or_overtaken_while_leaders_are_killed(cluster: ClusterProcess, tmp_path: Path) -> None:
    make_topic(cluster.nodes[0], "from", 2)
    make_topic(cluster.nodes[1], "to", 3)
    fill(cluster.nodes[2], "from", [Row(b"%d" % n, b"k%d" % (n % 13)) for n in range(BATCHES * BATCH_ROWS)])
    arguments = (cluster.bootstrap, "from", "to", str(tmp_path / "checkpoint"), str(BATCH_ROWS))
    deadline = time.monotonic() + SECONDS
    with Victim(tmp_path / "copier.log", "tests.pipeline.sink.copier", *arguments) as copy:
        wait_until(lambda: copy.has_said(BEGUN) or copy.is_over, lambda: copy.told, SECONDS)
        for kill in range(KILLS):
            leader = cluster.leader_of("to", kill % 3)
            assert leader is not None
            cluster.kill(leader)
            seen = batches_done(tmp_path)
            wait_until(lambda seen=seen: batches_done(tmp_path) > seen or copy.is_over, lambda: copy.told, SECONDS)  # type: ignore[misc]
            cluster.heal()
        assert copy.process.wait(max(1.0, deadline - time.monotonic())) == 0, copy.told
    check_rows(contents(cluster.nodes[0], "to"), BATCHES * BATCH_ROWS)
