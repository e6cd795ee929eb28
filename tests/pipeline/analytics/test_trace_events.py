"""Lines of trace files as rows, against how the broker itself reads them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.core.traces.span import Span, spelled_out
from goqueue.drive.trace_entries import encode_lines
from goqueue.pipeline.analytics.trace_events import events_of, is_event, lines_of, parsed

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def spans(seed: int) -> list[Span]:
    """Whole and short events, with ids up to the last one there is."""
    chance = random.Random(seed)
    made = [
        Span(f"{chance.getrandbits(128):032x}", f"{chance.getrandbits(64):016x}", "consume.acked", 10, 20, "orders", 1)
        for _ in range(3)
    ]
    for span_id in ("0000000000000000", "00ffffffffffffff", "7fffffffffffffff", "fffffffffffffffe"):
        more: dict[str, str | int] = {"door": "kafka", "checked_ns": 1_767_225_600_123_456_789}
        times = (1_767_225_600_123_000_001, 1_767_225_600_999_999_999)
        made.append(
            Span(
                f"{len(made):032x}", span_id, "publish", *times, "orders", 0, "", chance.randrange(99), "", "kéy", more
            )
        )
    return made


def told(one: Span) -> tuple[Any, ...]:
    more = {name: str(value) for name, value in one.more.items()}
    place = (one.topic, one.partition, one.offset, one.group, one.key)
    return one.trace_id, one.span_id, one.name, one.start_ns, one.end_ns, *place, more


def row_told(row: Row) -> tuple[Any, ...]:
    place = (row.topic, row.partition, row.offset, row.group, row.key)
    return row.trace_id, row.span_id, row.name, row.start_ns, row.end_ns, *place, dict(row.more)


def test_events_are_read_as_the_broker_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    written = spans(3)
    (tmp_path / "traces-0001.jsonl").write_bytes(encode_lines(written))
    (tmp_path / "traces-0002.jsonl").write_bytes(encode_lines(written[:2]))  # the same again
    lines = lines_of(spark, str(tmp_path))
    expected = [told(one) for span in written for one in spelled_out(span)]
    assert sorted(map(row_told, events_of(lines).collect()), key=repr) == sorted(expected, key=repr)
    assert parsed(lines).where(~is_event()).count() == 0


def test_what_is_no_event_is_counted_and_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    good = encode_lines(spans(4)[:1])
    bad = b'{"trace_id":"torn\n\xff\xfe\n[]\n42\n{"trace_id": "x", "span_id": "not hex"}\n\n   \n'
    (tmp_path / "traces-0001.jsonl").write_bytes(bad + good + good[:40])
    lines = lines_of(spark, str(tmp_path))
    assert [row.name for row in events_of(lines).collect()] == ["consume.acked"]
    assert parsed(lines).where(~is_event()).count() == 6
