"""Twenty consumers come and go while eight producers write: nothing is lost, nothing read twice without need."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bench.node_process import NodeProcess
from tests.door.kafka import raw
from tests.door.kafka.ledger import Ledger, Slot, Writer, read_log, wait_until, wrong_keys
from tests.door.kafka.raw import Line, unique

PARTITIONS = 24
PRODUCERS = 8
CONSUMERS = 20
LOAD_S = 8.0
RATE = 400


# The C client's close now and then never returns here, and then nothing ends the test: on demand until that is found.
@pytest.mark.skipif("GOQUEUE_LOAD_TESTS" not in os.environ, reason="set GOQUEUE_LOAD_TESTS=1 to run it")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "lives_s"),
    [
        (
            {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 200, "session.timeout.ms": 6000},
            (1.0, 4.0),
        ),
        (
            {
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": 200,
                "session.timeout.ms": 6000,
            },
            (1.0, 4.0),
        ),
        ({"group.protocol": "consumer"}, (1.0, 4.0)),
    ],
    ids=["range", "cooperative-sticky", "server-side"],
)
def test_no_loss_no_needless_double_order_per_key(
    tmp_path: Path, settings: dict[str, Any], lives_s: tuple[float, float]
) -> None:
    with NodeProcess(tmp_path / "data", settings={"GOQUEUE_GROUPS_HEARTBEAT_MS": "200"}) as node:
        topic, group, ledger = unique("t"), unique("g"), Ledger()
        with Line(node.kafka) as line:
            assert line.ask(raw.new_topic(topic, PARTITIONS)).topics[0].error_code == 0
        stopped = threading.Event()
        writers = [Writer(node.kafka, topic, f"w{n}", RATE, ledger, stopped) for n in range(PRODUCERS)]
        arguments = (node.kafka, topic, group, ledger, settings)
        slots = [Slot(n, lives_s, LOAD_S, arguments) for n in range(CONSUMERS)]
        for one in (*writers, *slots):
            one.start()
        time.sleep(LOAD_S)  # the load itself
        stopped.set()
        for writer in writers:
            writer.join()
        drained = wait_until(lambda: ledger.all_seen, 15)
        for slot in slots:
            slot.stop()
        for slot in slots:
            slot.join()
        log = read_log(node.kafka, topic, PARTITIONS)
        readers = [one for slot in slots for one in slot.readers]
        refused = [error for one in readers for error in one.errors]
        print(
            f"\n{settings}: {len(ledger.stored)} messages, {len(readers)} consumers, {ledger.takeovers} take-overs, "
            f"{ledger.repeats} read again, {len(refused)} commits refused {refused[:1]}"
        )
        assert [error for one in writers for error in one.errors] == []
        assert drained, f"{len(ledger.stored.keys() - ledger.seen.keys())} messages were never read"
        assert ledger.wrongs == []
        assert sum(map(len, log.values())) == sum(one.sent for one in writers) == len(ledger.stored)
        assert wrong_keys(log) == []
        assert ledger.repeats == 0 or refused, "a repetition has a commit that was refused before it"
