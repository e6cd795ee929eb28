"""Sampling, contexts, memory, files and exporters, each by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.propagate import extract
from opentelemetry.trace import get_current_span

from goqueue.base.clock import SteadyClock, SystemClock
from goqueue.base.settings import TraceSettings
from goqueue.base.trace_context import TraceContext, context_of, join_tracestate, parse_traceparent, with_context
from goqueue.core.traces.sampling import Identities, chosen, is_chosen, phase_of, share_of
from goqueue.core.traces.span import Span, TraceFilter, key_text, trace_of
from goqueue.drive.exporter import Exporter, ExportRefused, TryAgain
from goqueue.drive.trace_entries import Entry, count_of, encode_lines, spelled_out
from goqueue.drive.trace_files import TraceFiles
from goqueue.drive.trace_ring import SPANS_EACH, SPANS_MAX, TraceRing
from goqueue.format.search import has
from goqueue.service.tracer import Published, PublishedBatch, Sampled, Steps
from tests.traces.lives import SAMPLED, SPAN_ID, TRACE_ID, UNSAMPLED
from tests.waiting import let_pass, stretched

# --- contexts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        SAMPLED.upper(),
        SAMPLED + "-more",
        SAMPLED.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-1",
        f"00-{TRACE_ID[:-1]}g-{SPAN_ID}-01",
        f" {SAMPLED}",
    ],
)
def test_what_is_no_traceparent_is_none(value: str) -> None:
    assert parse_traceparent(value.encode()) is None
    assert parse_traceparent(None) is None


@given(st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-x)?", fullmatch=True))
def test_a_traceparent_means_what_opentelemetry_takes_it_for(value: str) -> None:
    theirs = get_current_span(extract({"traceparent": value})).get_span_context()
    ours = parse_traceparent(value.encode())
    assert (ours is not None) == theirs.is_valid
    if ours is not None:
        assert (int(ours.trace_id, 16), int(ours.span_id, 16)) == (theirs.trace_id, theirs.span_id)
        assert ours.is_sampled == theirs.trace_flags.sampled


def test_one_header_counts_and_is_the_one_that_is_replaced() -> None:
    headers = (("traceparent", UNSAMPLED.encode()), ("a", b"1"), ("traceparent", SAMPLED.encode()))
    found = context_of(headers[1:])
    assert found == TraceContext(TRACE_ID, SPAN_ID, True)
    assert with_context(headers[:2], found) == (("a", b"1"), ("traceparent", SAMPLED.encode()))


def test_two_headers_say_nothing_and_a_new_trace_takes_their_place() -> None:
    doubled = (("traceparent", SAMPLED.encode()), ("tracestate", b"a=1"), ("traceparent", SAMPLED.encode()))
    assert context_of(doubled) is None
    new = TraceContext("1" * 32, "2" * 16)
    assert with_context(doubled, new) == (("traceparent", b"00-%s-%s-01" % (b"1" * 32, b"2" * 16)),)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["a=1"], "a=1"),
        (["a=1 , b=2", "c@d=3"], "a=1,b=2,c@d=3"),
        (["a=1,,b=2,"], "a=1,b=2"),
        ([], ""),
        (["no member"], ""),
        (["A=1"], ""),
        (["a=1\n"], "a=1"),
        (["a=\u00e9"], ""),
        ([",".join(f"k{number}=v" for number in range(33))], ""),
        (["a=" + "x" * 200, "b=" + "y" * 100, "c=" + "z" * 240], "b=" + "y" * 100),
        ([",".join(f"k{number}={'v' * 50}" for number in range(20))], ",".join(f"k{n}={'v' * 50}" for n in range(9))),
    ],
)
def test_tracestate_is_joined_checked_and_cut(given: list[str], kept: str) -> None:
    assert join_tracestate(given).decode() == kept
    assert len(kept) <= 512


# --- sampling -------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.integers(0, 2**40), st.integers(0, 3_000), st.integers(0, 9))
def test_a_batch_and_its_messages_one_by_one_come_to_the_same(rate: float, base: int, more: int, number: int) -> None:
    share, phase = share_of(rate), phase_of("an id", number)
    one_by_one = [offset for offset in range(base, base + more + 1) if is_chosen(offset, share, phase)]
    assert list(chosen(base, base + more, share, phase)) == one_by_one


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.3, 0.5, 0.99])
def test_a_rate_is_kept_to_one_message(rate: float) -> None:
    for start in (0, 12_345, 10**12):
        assert abs(len(chosen(start, start + 99_999, share_of(rate), 7)) - 100_000 * rate) <= 1 + 100_000 / 2**20


def test_no_two_messages_have_the_same_ids() -> None:
    places = [(topic, partition) for topic in ("a", "b") for partition in (0, 1)]
    found = [Identities(*place).of(offset) for place in places for offset in range(5_000)]
    assert len({one.trace_id for one in found}) == len(found)
    assert len({one.span_id for one in found}) == len(found)
    assert all(parse_traceparent(with_context((), one)[0][1]) == one for one in found[:100])


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=5))
def test_the_search_finds_what_python_finds(data: bytes, needle: bytes) -> None:
    assert has(data, needle) == (needle in data)
    assert has(memoryview(data), needle) == (needle in data)


@given(st.integers(0, 5_000), st.integers(0, 5_000), st.booleans())
def test_the_search_keeps_to_the_part_it_is_given(begin: int, end: int, is_writable: bool) -> None:
    data = b"." * 2_500 + b"needle" + b"." * 2_494
    part = memoryview(bytearray(data) if is_writable else data)[begin:end]
    assert has(part, b"needle") == (b"needle" in data[begin:end])


# --- memory and files -----------------------------------------------------------------------------------


def span(trace: int, number: int = 0, name: str = "publish.received", **more: object) -> Span:
    at = 1_800_000_000_000_000_000 + number * 1_000_000
    return Span(f"{trace:032x}", f"{trace * 10_000 + number + 1:016x}", name, at, at, "t", 0, **more)  # type: ignore[arg-type]


def test_the_ring_forgets_what_was_quiet_longest() -> None:
    ring = TraceRing(3)
    ring.add([span(1), span(2), span(3)])
    ring.add([span(1, 1), span(4)])
    assert [trace.trace_id for trace in ring.newest(9)] == [f"{one:032x}" for one in (4, 1, 3)]
    assert ring.find(f"{2:032x}") == [] and len(ring.find(f"{1:032x}")) == 2 and ring.spans == 4


def test_one_endless_trace_does_not_take_the_ring() -> None:
    ring = TraceRing(10)
    for number in range(3 * SPANS_MAX):
        ring.add([span(1, number)])
    assert ring.spans <= SPANS_MAX and ring.spans + ring.dropped == 3 * SPANS_MAX
    assert ring.find(f"{1:032x}")[-1].end_ns == span(1, 3 * SPANS_MAX - 1).end_ns


def test_files_are_read_around_what_is_torn_or_damaged(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path / "traces", TraceSettings(), SteadyClock(SystemClock()))
    files.write([span(1, key='"quoted"\n'), span(2, 1, group="g")])
    files.write([span(1, 2, "consume.acked", group="g")])
    files.close()
    (path,) = files.files()
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    path.write_bytes(lines[0] + b"\xff\x00{nonsense}\n\n" + lines[1] + lines[2][:-9])
    assert [one.span_id for one in files.tail(10)] == [span(1).span_id, span(2, 1).span_id]
    path.write_bytes(b"".join(lines) + lines[0][:40])
    assert len(files.find([f"{1:032x}"])) == 2
    assert {one.trace_id for one in files.search(TraceFilter(status="completed"), 10)} == {f"{1:032x}"}
    assert {one.trace_id for one in files.search(TraceFilter(key='"quoted"\n', group="g"), 10)} == {f"{1:032x}"}
    assert len(files.search(TraceFilter(group="g"), 1)) == 2  # the newest, whole
    assert len(files.tail(2)) == 2


def test_old_files_go_when_their_time_is_over(tmp_path: Path) -> None:
    files = TraceFiles(tmp_path, TraceSettings(retention_ms=50, file_bytes=4096), SteadyClock(SystemClock()))
    files.write([span(1)] * 30)
    let_pass(0.1)  # longer than the files are kept
    files.write([span(2)] * 30)
    files.close()
    assert files.find([f"{1:032x}"]) == [] and len(files.files()) == 1


def test_a_trace_is_in_order_and_tells_each_event_once() -> None:
    trace = trace_of("x", [span(1, 3), span(1, 1), span(1, 3), span(1, 2, "consume.nacked")])
    assert [one.end_ns for one in trace.spans] == sorted({one.end_ns for one in trace.spans})
    assert len(trace.spans) == 3 and trace.status == "pending"


def test_keys_are_text_where_they_can_be() -> None:
    assert (key_text(None), key_text(b"a"), key_text(b"\xff\x01")) == ("", "a", "0xff01")
    assert len(key_text(b"k" * 10_000)) == 200


# --- exporters ------------------------------------------------------------------------------------------


def test_an_exporter_that_is_behind_drops_and_counts() -> None:
    release = threading.Event()
    sent: list[Entry] = []

    def send(spans: Sequence[Entry]) -> None:
        release.wait(10)
        sent.extend(spans)

    exporter = Exporter("slow", send, count_of, queue_max=5)
    exporter.put([span(1, number) for number in range(8)])
    assert (exporter.waiting, exporter.dropped) == (5, 3)
    exporter.start()
    release.set()
    assert exporter.drain(10)
    assert [one.end_ns for one in sent if isinstance(one, Span)] == [span(1, number).end_ns for number in range(5)]
    assert exporter.exported == 5
    exporter.close(1)


def test_an_exporter_tries_again_in_order_and_gives_up_what_is_refused() -> None:
    answers: list[Exception | None] = [
        TryAgain("busy", 0.01),
        TryAgain("busy"),
        None,
        ExportRefused("no", 1),
        OSError("full"),
    ]
    seen: list[list[Entry]] = []

    def send(spans: Sequence[Entry]) -> None:
        seen.append(list(spans))
        if (answer := answers.pop(0)) is not None:
            raise answer

    exporter = Exporter("moody", send, count_of, wait_s=0.01)
    exporter.start()
    for number in range(3):
        exporter.put([span(number, 0), span(number, 1)])
        assert exporter.drain(10)
    assert seen[0] == seen[1] == seen[2]
    assert (exporter.exported, exporter.dropped, exporter.failure) == (3, 3, "full")
    exporter.close(1)


def test_a_closed_exporter_does_not_wait_for_a_dead_end() -> None:
    def send(spans: Sequence[Entry]) -> None:
        raise TryAgain("nobody there")

    exporter = Exporter("dead", send, count_of)
    exporter.start()
    exporter.put([span(1)])
    began = time.monotonic()
    exporter.close(0.2)
    assert time.monotonic() - began < stretched(5) and exporter.waiting == 0


def test_a_publish_in_short_is_spelled_out_the_same_each_time() -> None:
    short = span(1, 5, "publish", offset=7, more={"door": "kafka", "checked_ns": 1_800_000_000_005_000_000})
    trace = trace_of(short.trace_id, [short, short])
    steps = ["received", "validated", "partitioned", "persisted"]
    assert [one.name for one in trace.spans] == [f"publish.{step}" for step in steps]
    assert len({one.span_id for one in trace.spans}) == 4 and {one.offset for one in trace.spans} == {7}
    assert [one.parent_id for one in trace.spans] == ["", *[short.span_id] * 3]
    assert trace.spans[0].more == {"door": "kafka"}
    assert trace_of(short.trace_id, [short]) == trace


@given(st.lists(st.integers(0, 2**62 - 1), max_size=20), st.integers(0, 2**62))
def test_many_events_are_the_same_as_lines_and_one_by_one(offsets: list[int], at: int) -> None:
    batch = PublishedBatch("a.b-c", "id", 3, Steps(at, at + 1, at + 2), "kafka", offsets)
    assert batch.lines() == encode_lines(batch.spans())
    sampled = [Sampled(offset, TraceContext("t" * 32, "s" * 16), offset % 2 == 0) for offset in offsets]
    few = Published("a", 3, Steps(at, at, at), "rest", 7, sampled)
    assert few.spans() == few.spans() and len({one.span_id for one in few.spans()} - {"s" * 16}) <= few.count


def test_what_lies_folded_in_the_ring_is_bounded_and_not_lost() -> None:
    ring = TraceRing(1_000)
    for first in range(0, 100_000, 100):
        ring.put([PublishedBatch("t", "id", 0, Steps(1, 2, 3), "kafka", range(first, first + 100))])
        assert ring.folded <= 1_000 * SPANS_EACH + 100 and len(ring) <= 1_000
    ring.add(spelled_out(ring.take_folded()))
    assert len(ring) == 1_000 and {trace.offset for trace in ring.newest(1_000)} == set(range(99_000, 100_000))
