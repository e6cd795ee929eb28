"""`kill -9` under load: groups, offsets, producers and data are there after the restart, and everybody goes on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bench.node_process import NodeProcess
from goqueue.wire.messages.describe_groups import DescribeGroupsRequest
from goqueue.wire.messages.list_groups import ListGroupsRequest
from tests.door.kafka import raw
from tests.door.kafka.ledger import Ledger, Reader, Writer, read_log, wrong_keys
from tests.door.kafka.raw import Line, free_port, unique
from tests.long import LONG
from tests.waiting import has_come, let_pass

PARTITIONS = 6
PRODUCERS = 4
CONSUMERS = 3
ROUNDS = 5 if LONG else 3
ROUND_S = 1.2
RATE = 1500


def committed(line: Line, group: str, topic: str) -> dict[int, int]:
    found = {}
    for number in range(PARTITIONS):
        part = line.ask(raw.committed(group, topic, number), 9).groups[0].topics[0].partitions[0]
        found[number] = part.committed_offset
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "fsync"),
    [
        ({"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 500}, "interval"),
        ({"group.protocol": "consumer"}, "always"),
    ],
    ids=["cooperative-sticky", "server-side"],
)
def test_everybody_goes_on_after_kills_under_load(tmp_path: Path, settings: dict[str, Any], fsync: str) -> None:
    address = ("--kafka", f"127.0.0.1:{free_port()}")
    node = NodeProcess(tmp_path / "data", *address, "--fsync", fsync).start()
    topic, group, ledger = unique("t"), unique("g"), Ledger()
    with Line(node.kafka) as line:
        assert line.ask(raw.new_topic(topic, PARTITIONS)).topics[0].error_code == 0
    stopped = threading.Event()
    writers = [Writer(node.kafka, topic, f"w{n}", RATE, ledger, stopped) for n in range(PRODUCERS)]
    readers = [Reader(node.kafka, topic, group, f"r{n}", ledger, settings, 600) for n in range(CONSUMERS)]
    for one in (*writers, *readers):
        one.start()
    assert has_come(lambda: len(ledger.committed) == PARTITIONS), "the load is under way"
    back_s = []
    for _ in range(ROUNDS):
        let_pass(ROUND_S)  # the load itself
        node.kill()
        acked = dict(ledger.committed)
        began = time.monotonic()
        node.start()
        back_s.append(time.monotonic() - began)
        with Line(node.kafka) as line:
            kept = committed(line, group, topic)
            assert all(kept[number] >= offset for number, offset in acked.items()), (kept, acked)
            assert group in [one.group_id for one in line.ask(ListGroupsRequest()).groups]
    stored = len(ledger.stored)
    assert has_come(lambda: len(ledger.stored) > stored + 100), "producers go on after the last kill"
    stopped.set()
    for writer in writers:
        writer.join()
    drained = has_come(lambda: ledger.all_seen)
    with Line(node.kafka) as line:
        members = len(line.ask(DescribeGroupsRequest([group])).groups[0].members)
    for reader in readers:
        reader.stopped.set()
    for reader in readers:
        reader.join()
    log = read_log(node.kafka, topic, PARTITIONS)
    node.stop()
    print(
        f"\n{settings}: {len(ledger.stored)} messages over {ROUNDS} kills, back in {max(back_s):.2f} s at most, "
        f"{ledger.takeovers} take-overs, {ledger.repeats} read again"
    )
    assert [error for one in writers for error in one.errors] == []
    assert drained, f"{len(ledger.stored.keys() - ledger.seen.keys())} messages were never read"
    assert ledger.wrongs == []
    assert sum(map(len, log.values())) == sum(one.sent for one in writers) == len(ledger.stored)
    assert wrong_keys(log) == []
    if "group.protocol" not in settings:
        assert members == CONSUMERS
