"""Every number in the page is the input's; a page of nothing says what to run."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise

import msgspec
import pytest

from goqueue.console import look, pages
from goqueue.pipeline import human
from goqueue.pipeline.report.page import page
from goqueue.pipeline.report.rows import Facts, Traffic
from tests.pipeline.report.made_up import LANES, MINUTE_MS, START_MS, facts, traffic
from tests.pipeline.report.reading import Page, number_of, path_points, said

FACTS = facts()
PAGE = page(FACTS)
SEEN = Page(PAGE)


def minute(number: int) -> str:
    return human.moment(START_MS + number * MINUTE_MS)


# --- what flowed --------------------------------------------------------------------------------------


def test_the_rate_of_every_window_is_told_under_the_pointer_and_in_the_table() -> None:
    card = SEEN.card("Messages a second")
    by_minute: dict[str, set[str]] = defaultdict(set)
    for one in FACTS.traffic or []:
        by_minute[f"{human.moment(one.start_ms)} UTC"].add(f"{one.topic}: {human.rate(one.messages / 60)}")
    assert {lines[0]: set(lines[1:]) for lines in card.hovers()} == by_minute
    rows = card.table()
    assert len(rows) == 60
    for row in rows:
        time = row.pop("Time (UTC)")
        assert {f"{topic}: {shown}" for topic, shown in row.items()} == by_minute[f"{time} UTC"]


def test_lines_are_where_the_axis_says() -> None:
    card = SEEN.card("Messages a second")
    base, top = card.heights()
    high = float(card.axis()[-1].removesuffix("/s"))
    series = dict(zip(("c0", "c1", "c2"), card.legend(), strict=True))
    for colour, topic in series.items():
        [line] = card.marks("path", f"line {colour}")
        points = path_points(line)
        mine = [one.messages / 60 for one in FACTS.traffic or [] if one.topic == topic]
        read = [(base - y) / (base - top) * high for _, y in points]
        assert read == pytest.approx(mine, abs=0.1 / (base - top) * high)
        steps = {round(after - before, 0) for (before, _), (after, _) in pairwise(points)}
        assert len(steps) <= 2, "windows of one length are one distance apart"


def test_lanes_stand_one_on_another_and_add_up() -> None:
    card = SEEN.card("Messages by priority")
    totals: Counter[str] = Counter()
    first: Counter[str] = Counter()
    for one in FACTS.lanes or []:
        totals[one.lane] += one.messages
        first[one.lane] += one.messages if one.start_ms == START_MS else 0
    assert card.legend() == {lane: human.count(totals[lane]) for lane in LANES}
    base, top = card.heights()
    high = float(card.axis()[-1].replace(",", ""))
    below = base
    for place, lane in enumerate(LANES):
        bar = card.marks("rect", f"bar l{place}")[0]
        assert number_of(bar, "height") == pytest.approx(first[lane] / high * (base - top), abs=0.15)
        assert number_of(bar, "y") + number_of(bar, "height") == pytest.approx(below, abs=0.2)
        below = number_of(bar, "y")


def test_bytes_and_keys_have_their_own_units() -> None:
    first = [one for one in FACTS.traffic or [] if one.start_ms == START_MS]
    rate = SEEN.card("Bytes a second").table()[0]
    assert {one.topic: f"{human.size(one.bytes / 60)}/s" for one in first}.items() <= rate.items()
    keys = SEEN.card("Different keys").table()[0]
    assert {one.topic: human.count(one.keys) for one in first}.items() <= keys.items()


def test_topics_are_added_up() -> None:
    rows = {row["Topic"]: row for row in SEEN.card("Topics").table()}
    for topic in ("orders", "payments", "clicks"):
        mine = [one for one in FACTS.traffic or [] if one.topic == topic]
        messages, size = sum(one.messages for one in mine), sum(one.bytes for one in mine)
        assert rows[topic]["Messages"] == f"{messages:,}"
        assert rows[topic]["Bytes"] == human.size(size)
        assert rows[topic]["Mean size"] == human.size(size / messages)
        assert rows[topic]["Mean rate"] == human.rate(messages / 3600)
        assert rows[topic]["Highest rate"] == human.rate(max(one.messages for one in mine) / 60)


def test_a_month_of_minutes_becomes_few_windows_and_loses_nothing() -> None:
    rows = [Traffic("t", START_MS + n * MINUTE_MS, MINUTE_MS, n % 97, n, n % 13) for n in range(30 * 1440)]
    made = Page(page(msgspec.structs.replace(FACTS, traffic=rows, lanes=None)))
    hovers = made.card("Messages a second").hovers()
    assert len(hovers) == 120
    length_s = 30 * 86_400 / 120
    added = sum(float(line[1].split()[-1].removesuffix("/s")) * length_s for line in hovers)
    assert added == pytest.approx(sum(one.messages for one in rows), rel=0.01)
    assert "the most of each stretch" in made.card("Different keys").text
    assert max(int(row["t"]) for row in made.card("Different keys").table()) == 12


def test_many_topics_are_all_in_the_table_and_seven_in_the_plot() -> None:
    rows = [Traffic(f"t{n:02}", START_MS, MINUTE_MS, 100 + n, 1_000, 1) for n in range(20)]
    card = Page(page(msgspec.structs.replace(FACTS, traffic=rows))).card("Messages a second")
    assert list(card.legend()) == [f"t{n:02}" for n in range(19, 12, -1)]
    assert "13 with less are only in the table" in card.text
    assert len(card.table()[0]) == 21


# --- how fast, what failed, who is behind, health ------------------------------------------------------


def test_stages_are_told_with_all_percentiles() -> None:
    rows = SEEN.card("Time in each stage").table()
    assert len(rows) == len(FACTS.stages or [])
    for row, one in zip(rows, FACTS.stages or [], strict=True):
        assert [row["Stage"], row["Topic"], row["Events"]] == [one.name, one.topic, f"{one.count:,}"]
        shown = [row["p50"], row["p90"], row["p99"], row["Longest"]]
        assert shown == [human.span(value) for value in (one.p50_us, one.p90_us, one.p99_us, one.max_us)]


def test_ranges_lie_on_one_axis_of_powers() -> None:
    card = SEEN.card("Time in each stage")
    places = {}
    for one, bar in zip(FACTS.stages or [], card.marks("rect", "bar c0"), strict=True):
        places[one.p50_us] = number_of(bar, "x")
        assert number_of(bar, "width") > 0
    ordered = [place for _, place in sorted(places.items())]
    assert ordered == sorted(ordered)
    # Ten times as long is always the same distance further: from 100 us to 10 s are five decades on 284 pixels.
    assert places[2_004_111.0] - places[181.0] == pytest.approx(284 / 5 * 4.044, abs=0.5)


def test_the_slowest_traces_are_six_with_their_events() -> None:
    card = SEEN.card("Slowest traces")
    by_time = sorted(FACTS.slowest or [], key=lambda one: -one.took_us)
    assert [one.text for one in card.element.iter("code")] == [one.trace_id for one in by_time[:6]]
    for one in by_time[:6]:
        assert human.span(one.took_us) in card.text and f"{one.topic}/{one.partition}/{one.offset}" in card.text
    first = by_time[0]
    told = [said(one) for one in card.element.iter("title")][: len(first.events)]
    assert told[-1] == f"dlq.routed: over after {human.span(first.took_us)}, took 9 ms"
    assert [line.partition(":")[0] for line in told] == [event.name for event in first.events]


def test_failures_and_dead_letters_are_counted_by_cause() -> None:
    rows = SEEN.card("Failures in traces").table()
    assert [(row["Event"], row["Reason"], row["Traces"]) for row in rows] == [
        ("consume.nacked", "the address is incomplete", "341"),
        ("visibility.timeout", "-", "27"),
    ]
    letters = SEEN.card("Dead letters by cause")
    assert "266 in 3 kinds" in letters.text
    assert [row["Letters"] for row in letters.table()] == ["212", "41", "13"]
    assert [row["Reason"] for row in letters.table()] == ["MAX_FAILURES", "REJECTED", "LEASE_EXPIRED"]
    assert "9f3c01aa" in letters.text and letters.table()[0]["First (UTC)"] == minute(0)


def test_dead_letters_over_time() -> None:
    card = SEEN.card("Dead letters by reason")
    totals: Counter[str] = Counter()
    for one in FACTS.deaths or []:
        totals[one.reason] += one.count
    assert card.legend() == {reason: human.count(count) for reason, count in totals.items()}
    assert sum(int(row[reason]) for row in card.table() for reason in totals) == sum(totals.values())


def test_quality_and_drift() -> None:
    rows = SEEN.card("Rows checked").table()
    assert [(row["Topic"], row["Rows checked"], row["In quarantine"], row["Share"]) for row in rows] == [
        ("orders", "12,345", "99", "0.802 %"),
        ("payments", "8,765", "0", "0 %"),
    ]
    assert [row["Rows"] for row in SEEN.card("Broken rules").table()] == ["61", "38"]
    assert [row["After"] for row in SEEN.card("Drift").table()] == ["41.7 %", "number"]


def test_lag_is_told_at_every_look() -> None:
    card = SEEN.card("Lag by group")
    assert len(card.hovers()) == 20
    last = [one for one in FACTS.lags or [] if one.at_ms == max(one.at_ms for one in FACTS.lags or [])]
    now = {row["Group"]: row["Behind"] for row in SEEN.card("Now").table()}
    assert now == {one.group: f"{one.messages:,}" for one in last}


def test_lake_health_tells_every_hole() -> None:
    tables = {row["Table"]: row for row in SEEN.card("Tables").table()}
    assert tables["messages"]["Rows"] == "51,234" and tables["messages"]["Mean file"] == human.size(9_876_543 / 44)
    audit = SEEN.card("Audit")
    assert "3 lost, 9 unknown, 1 doubled" in audit.text
    kinds = ("Explained", "Expired", "Lost", "Unknown", "Doubled")
    assert [audit.table()[0][kind] for kind in kinds] == ["6", "7", "3", "9", "1"]
    holes = SEEN.card("Gaps and overlaps").table()
    assert [(row["What"], row["Verdict"], row["From offset"], row["To offset"], row["Offsets"]) for row in holes] == [
        ("gap", "lost", "77", "79", "3"),
        ("overlap", "doubled", "101", "101", "1"),
    ]


def test_the_numbers_on_top_are_those_below() -> None:
    total = sum(one.messages for one in FACTS.traffic or [])
    tiles = SEEN.tiles()
    assert tiles["Messages"][0] == f"{total:,}"
    peak = max(sum(one.messages for one in traffic() if one.start_ms == START_MS + n * MINUTE_MS) for n in range(60))
    assert tiles["Highest rate"] == (human.rate(peak / 60), f"mean {human.rate(total / 3600)}")
    assert tiles["Publish to ack, p99"] == (human.span(503_777), "orders, the slowest topic")
    assert tiles["Dead letters"] == ("266", "212 of them MAX_FAILURES")
    assert tiles["In quarantine"][0] == "99"
    assert tiles["Gaps and overlaps"][0] == "13"


# --- the page itself ----------------------------------------------------------------------------------


def test_a_page_needs_nothing_else() -> None:
    assert not re.search(r"(?:src|href)=['\"](?!#)", PAGE)
    assert "url(" not in PAGE and "@import" not in PAGE and "<script" not in PAGE
    assert "color-scheme: light dark" in PAGE and "light-dark(" in PAGE
    assert page(facts()) == PAGE


def test_the_page_looks_like_the_console() -> None:
    shared = set(re.findall(r"(--[\w-]+):", look()))
    own = PAGE.replace(look(), "", 1)
    assert own != PAGE and not shared & set(re.findall(r"(--[\w-]+):", own)), "colours are in one place"
    styles = [content.decode() for path, (_, content) in pages().items() if path.endswith(".css")]
    defined = [name for style in styles for name in re.findall(r"(--[\w-]+):", style)]
    assert len(defined) == len(set(defined))
    used = set(re.findall(r"var\((--[\w-]+)\)", PAGE))
    assert used <= set(re.findall(r"(--[\w-]+):", PAGE))


def test_a_message_cannot_become_part_of_the_page() -> None:
    [pre] = [one for one in SEEN.root.iter("pre") if "script" in (one.text or "")]
    assert pre.text == '{"note": "<script>alert(1)</script> & \\u0000 ]]>"}'
    assert list(SEEN.root.iter("script")) == []


def test_every_plot_has_a_name_for_those_who_cannot_see_it() -> None:
    plots = [one for one in SEEN.root.iter("svg") if one.get("class") in ("plot", "fall")]
    assert plots and all(one.get("aria-label") and one.get("role") == "img" for one in plots)


def test_a_lake_of_nothing_says_what_to_run() -> None:
    seen = Page(page(Facts(lake="/my lake", made_ms=START_MS)))
    commands = [text for one in seen.root.iter("code") if (text := one.text or "").startswith("goqueue pipeline")]
    named = [re.findall(r"run (\w+)", one)[0] for one in commands]
    assert named == ["rates", "latency", "dlq", "quality", "rates", "archive", "compact"]
    assert all(one.endswith("--lake '/my lake'") for one in commands)
    assert {number for number, _ in seen.tiles().values()} == {"-"}


def test_what_was_looked_for_and_not_found_is_good_news() -> None:
    clean = Facts(
        lake="x", made_ms=0, traffic=[], lags=[], stages=[], letters=[], checked=[], tables=[], audits=[], holes=[]
    )
    seen = Page(page(clean))
    fine = [one.text for one in seen.root.iter("p") if one.get("class") == "fine"]
    assert len(fine) == 6
    assert seen.tiles()["Dead letters"] == ("0", "")


def test_one_window_and_one_look_are_enough() -> None:
    one = msgspec.structs.replace(FACTS, traffic=(FACTS.traffic or [])[:1], lags=(FACTS.lags or [])[:1])
    seen = Page(page(one))
    assert len(seen.card("Messages a second").marks("circle", "point c0")) == 1
    assert len(seen.card("Lag by group").hovers()) == 1
