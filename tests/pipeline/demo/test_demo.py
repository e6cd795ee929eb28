"""A small demo from door to door: every pipeline's result against what was really published and really happened.

What is right is computed in plain Python, from the shop's own ledger and from the node's trace files.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from deltalake import DeltaTable

from goqueue.client import Client
from goqueue.pipeline import human
from goqueue.pipeline.counters import all_counters
from goqueue.pipeline.demo.demo import LEDGER, Demo, walked
from goqueue.pipeline.demo.ledger import LedgerEntry, entries
from goqueue.pipeline.demo.node import DemoNode
from goqueue.pipeline.running import Summary
from tests.pipeline.report.looking import looked_at
from tests.pipeline.report.reading import Page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.slow, pytest.mark.timeout(900)]
SCALE = 2_500
REASONS = {"hopeless": "MAX_FAILURES", "refused": "REJECTED", "stuck": "LEASE_EXPIRED", "late": "TTL_EXPIRED"}


class Toured(NamedTuple):
    asked: Demo
    done: list[Summary]
    entries: list[LedgerEntry]
    events: list[dict[str, Any]]
    said: list[str]
    behind: dict[str, int]  # as the node itself says at the end

    def rows(self, name: str, *columns: str) -> list[dict[str, Any]]:
        table = DeltaTable(f"{self.asked.lake}/{name}").to_pyarrow_table(columns=list(columns) or None)
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def placed(self) -> dict[tuple[str, int, int], LedgerEntry]:
        return {(one.topic, one.partition, one.offset): one for one in self.entries if one.offset is not None}


@pytest.fixture(scope="module")
def toured(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toured]:
    asked = Demo(tmp_path_factory.mktemp("tour"), seed=4, scale=SCALE)
    said: list[str] = []
    with DemoNode(asked.folder / "data") as node:
        done = walked(asked, node, spark, said.append)
        with Client(node.url) as client:
            names = [one.group for one in client.groups()]
            behind = {name: sum(one.lag for one in client.group(name).lag) for name in names}
    lines = [line for path in sorted(node.traces.glob("traces-*.jsonl")) for line in path.read_text().splitlines()]
    yield Toured(asked, done, list(entries(asked.folder / LEDGER)), [json.loads(line) for line in lines], said, behind)


def moment_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def test_the_whole_hour_was_published(toured: Toured) -> None:
    assert len(toured.entries) == SCALE
    assert len({(one.topic, one.partition, one.offset) for one in toured.entries if not one.delay_ms}) == len(
        toured.placed()
    )


def test_archive_has_every_message_once_as_it_was(toured: Toured) -> None:
    columns = ("topic", "partition", "offset", "key", "value", "timestamp", "priority", "schemaId")
    rows = toured.rows("messages", *columns)
    assert len(rows) == SCALE
    placed = toured.placed()
    delayed = Counter(
        (one.topic, one.partition, one.key, one.at_ms, one.bytes) for one in toured.entries if one.delay_ms
    )
    for row in rows:
        place = row["topic"], row["partition"], row["offset"]
        key = None if row["key"] is None else row["key"].decode()
        size = len(row["value"]) + len(row["key"] or b"")
        found = key, moment_ms(row["timestamp"]), size
        if place not in placed:
            delayed[row["topic"], row["partition"], *found] -= 1
            continue
        one = placed.pop(place)
        assert found == (one.key, one.at_ms, one.bytes)
        assert row["priority"] == one.lane
        assert (row["schemaId"] is None) == (one.version is None)
    assert not placed and not any(delayed.values())


def test_rates_are_the_ledger_s_by_minute(toured: Toured) -> None:
    messages: Counter[tuple[str, int]] = Counter()
    sizes: Counter[tuple[str, int]] = Counter()
    keys: dict[tuple[str, int], set[str]] = defaultdict(set)
    lanes: Counter[tuple[str, int]] = Counter()
    for one in toured.entries:
        window = one.topic, one.at_ms // 60_000 * 60_000
        messages[window] += 1
        sizes[window] += one.bytes
        lanes[one.topic, one.lane] += 1
        if one.key is not None:
            keys[window].add(one.key)
    rows = {(row["topic"], moment_ms(row["start"])): row for row in toured.rows("studies/traffic")}
    assert {window: row["messages"] for window, row in rows.items()} == messages
    assert {window: row["bytes"] for window, row in rows.items()} == sizes
    for window, row in rows.items():
        assert row["keys"] == pytest.approx(len(keys[window]), rel=0.05, abs=0.5)
    found: Counter[tuple[str, int]] = Counter()
    for row in toured.rows("studies/rates", "topic", "lane", "messages"):
        found[row["topic"], row["lane"]] += row["messages"]
    assert found == lanes


def test_lag_is_what_the_node_says(toured: Toured) -> None:
    rows = toured.rows("studies/lag", "time", "group", "lag")
    last = max(row["time"] for row in rows)
    behind: Counter[str] = Counter()
    for row in rows:
        behind[row["group"]] += row["lag"] if row["time"] == last else 0
    assert dict(behind) == {name: toured.behind[name] for name in ("packing", "billing", "trends")}
    assert behind["trends"] > 0
    assert len({row["time"] for row in rows}) >= 3


def test_latency_is_what_the_trace_files_say(toured: Toured) -> None:
    spans: dict[tuple[str, str], list[int]] = defaultdict(list)
    for event in toured.events:
        took = (event["end_ns"] - event["start_ns"]) // 1_000
        if event["name"] == "consume.acked":
            spans[event["topic"], "lease.ack"].append(took)
        elif event["name"] == "visibility.timeout":
            spans[event["topic"], "lease.timeout"].append(took)
        elif event["name"] == "publish":
            checked = int(event["more"]["checked_ns"])
            spans[event["topic"], "publish.persist"].append((event["end_ns"] - checked) // 1_000)
    rows = {(row["topic"], row["stage"]): row for row in toured.rows("studies/stages")}
    assert {("orders", "lease.ack"), ("payments", "lease.timeout"), ("clicks", "publish.persist")} <= spans.keys()
    for stage, exact in spans.items():
        row, ordered = rows[stage], sorted(exact)
        assert (row["count"], row["max_us"]) == (len(exact), ordered[-1]), stage
        for name, rank in (("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)):
            low, high = (
                ordered[min(len(exact) - 1, max(0, int(len(exact) * edge)))] for edge in (rank - 0.02, rank + 0.02)
            )
            assert low <= row[name] <= high, (stage, name)


def test_slowest_traces_took_longest(toured: Toured) -> None:
    ends: dict[str, list[int]] = defaultdict(list)
    for event in toured.events:
        ends[event["trace_id"]] += [event["start_ns"], event["end_ns"]]
    exact = {trace: (max(times) - min(times)) // 1_000 for trace, times in ends.items()}
    rows = toured.rows("studies/slowest", "trace_id", "took_us", "hour")
    assert {row["trace_id"]: row["took_us"] for row in rows}.items() <= exact.items()
    # Twenty of each hour: the longest of all is there, and no other of its hour is longer than those.
    assert max(row["took_us"] for row in rows) == max(exact.values())
    assert len(rows) == 20 * len({row["hour"] for row in rows})


def test_dead_letters_are_those_that_had_to_die(toured: Toured) -> None:
    doomed = {place: REASONS[one.fate] for place, one in toured.placed().items() if one.fate in REASONS}
    rows = toured.rows("studies/letters", "topic", "partition", "offset", "reason", "error")
    assert {(row["topic"], row["partition"], row["offset"]): row["reason"] for row in rows} == doomed
    assert len(rows) == len(doomed)
    assert set(doomed.values()) == set(REASONS.values()), "the seed makes all kinds"
    kinds = Counter((row["topic"], row["reason"]) for row in rows)
    counted: Counter[tuple[str, str]] = Counter()
    for row in toured.rows("studies/dlq", "topic", "reason", "letters"):
        counted[row["topic"], row["reason"]] += row["letters"]
    assert counted == kinds


def test_quarantine_is_what_was_broken(toured: Toured) -> None:
    broken = {place for place, one in toured.placed().items() if one.broken is not None}
    rows = toured.rows("quarantine", "topic", "partition", "offset")
    assert {(row["topic"], row["partition"], row["offset"]) for row in rows} == broken
    assert len(rows) == len(broken) > 10
    counts: Counter[str] = Counter()
    for row in toured.rows("studies/quality", "topic", "check", "rows", "bad"):
        if row["check"] == "all":
            counts[row["topic"]] += row["rows"]
    assert counts == Counter(one.topic for one in toured.entries)


def test_drift_sees_the_new_form_of_orders(toured: Toured) -> None:
    rows = toured.rows("studies/drift", "topic", "field", "change")
    assert {("orders", "channel", "new field"), ("orders", "coupon", "new field")} <= {
        (row["topic"], row["field"], row["change"]) for row in rows
    }


def test_compact_finds_nothing_missing(toured: Toured) -> None:
    counts = Counter((one.topic, one.partition) for one in toured.entries)
    rows = {(row["topic"], row["partition"]): row for row in toured.rows("studies/audit")}
    assert {place: row["rows"] for place, row in rows.items()} == counts
    assert all((row["first"], row["last"]) == (0, row["rows"] - 1) for row in rows.values())
    assert all(not row["missing"] and not row["doubled"] for row in rows.values())


def test_the_report_tells_it_as_it_was(toured: Toured) -> None:
    path = Path(toured.asked.lake, "report/index.html")
    page = Page(path.read_text())
    tiles = page.tiles()
    assert tiles["Messages"] == (f"{SCALE:,}", f"{human.size(sum(one.bytes for one in toured.entries))} in 3 topics")
    assert tiles["Dead letters"][0] == f"{sum(one.fate in REASONS for one in toured.entries):,}"
    assert tiles["In quarantine"][0] == f"{sum(one.broken is not None for one in toured.entries):,}"
    assert tiles["Gaps and overlaps"][0] == "0"
    topics = {row["Topic"]: row["Messages"] for row in page.card("Topics").table()}
    assert topics == {name: f"{n:,}" for name, n in Counter(one.topic for one in toured.entries).items()}
    assert [one for one in page.root.iter("p") if one.get("class") == "missing"] == []
    example = page.card("Dead letters by cause")
    assert '"order"' in example.text and "is incomplete" in example.text
    assert looked_at(path, "tour-report", 8_000).size > 200_000


def test_what_ran_is_said_and_counted(toured: Toured) -> None:
    names = ["archive", "quality", "archive", "rates", "latency", "dlq", "quality", "compact", "report"]
    assert [one.pipeline for one in toured.done] == names
    assert [line.split()[0] for line in toured.said] == names
    assert sum(one.rows_in for one in toured.done if one.pipeline == "archive") == SCALE
    counted = all_counters(f"{toured.asked.lake}/_metrics")
    assert {name: one.runs for name, one in counted.items()} == Counter(names)
    assert counted["archive"].rows_in == SCALE
