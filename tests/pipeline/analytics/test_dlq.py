"""Dead letters read by Spark, and redrives that mean the letters of one fingerprint and no others."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.pipeline.analytics.dlq import dlq
from goqueue.pipeline.analytics.letters import letters
from goqueue.pipeline.analytics.redrive import Stretch, as_lines, chosen, listed, of_lines, stretches
from goqueue.pipeline.link.errors import PipelineError
from tests.pipeline.analytics.rows import frame_of, millis, moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

START_MS = 1_767_225_600_000
ERRORS = {"card {} refused": "card <n> refused", "no item {}": "no item <n>", "": ""}


def letter(place: int, died_ms: int, **told: Any) -> dict[str, Any]:
    whole = {"topic": "orders", "partition": 1, "offset": 7, "group": "packers", "reason": "REJECTED", **told}
    headers = [("kind", b"greeting"), *((f"goqueue-dlq-{name}", str(value).encode()) for name, value in whole.items())]
    headers.append(("goqueue-dlq-died-at", str(died_ms).encode()))
    home = {"topic": "orders.dlq", "partition": 0, "offset": place, "timestamp": moment(died_ms + 5)}
    return {**home, "headers": headers, "key": b"k", "value": b"12345"}


def test_what_a_letter_tells(spark: SparkSession) -> None:
    told = {
        "error": "no item 7",
        "attempts": 3,
        "failures": 2,
        "timestamp": START_MS - 9,
        "first-delivered-at": START_MS,
    }
    good = letter(4, START_MS + 1_234, **told)
    good["headers"].append(("goqueue-redrives", b"2"))
    row = letters(frame_of(spark, [good])).collect()[0]
    assert (row.letter_topic, row.letter_partition, row.letter_offset) == ("orders.dlq", 0, 4)
    assert (row.topic, row.partition, row.offset, row.group, row.reason) == ("orders", 1, 7, "packers", "REJECTED")
    assert (millis(row.died_at), millis(row.published_at), millis(row.hour)) == (
        START_MS + 1_234,
        START_MS - 9,
        START_MS,
    )
    assert (row.attempts, row.failures, row.redrives, row.bytes) == (3, 2, 2, 6)
    assert (row.error, row.template) == ("no item 7", "no item <n>")


def test_letters_by_hand_and_broken_ones_are_rows_like_others(spark: SparkSession) -> None:
    by_hand = {"topic": "orders.dlq", "timestamp": moment(START_MS)}
    broken = letter(1, START_MS, partition="x", offset="-", attempts="many")
    broken["headers"] += [("goqueue-dlq-error", b"\xff\xfe"), ("kind", None), ("kind", b"again")]
    rows = {row.letter_offset: row for row in letters(frame_of(spark, [by_hand, broken])).collect()}
    assert (rows[0].topic, rows[0].reason, millis(rows[0].died_at)) == (None, "", START_MS)
    assert (rows[1].topic, rows[1].partition, rows[1].offset, rows[1].attempts) == ("orders", None, None, 0)
    assert rows[1].error == "\ufffd\ufffd"


def made(seed: int, count: int, span_ms: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        letter(
            number,
            START_MS + chance.randrange(span_ms),
            group=chance.choice(("packers", "printers")),
            reason=chance.choice(("REJECTED", "MAX_FAILURES")),
            error=chance.choice(list(ERRORS)).format(chance.randrange(999)),
        )
        for number in range(count)
    ]


def facts(row: dict[str, Any]) -> tuple[str, str, int, str]:
    """Group, reason, time of death and template of a made letter."""
    told = {name.removeprefix("goqueue-dlq-"): value.decode() for name, value in row["headers"]}
    template = next(ERRORS[one] for one in ERRORS if one.partition(" ")[0] == told["error"].partition(" ")[0])
    return told["group"], told["reason"], int(told["died-at"]), template


def test_kinds_of_deaths_by_hour(spark: SparkSession) -> None:
    rows = made(41, 500, span_ms=3 * 3_600_000)
    expected = Counter((group, reason, at // 3_600_000, template) for group, reason, at, template in map(facts, rows))
    found = dlq(frame_of(spark, rows)).collect()
    assert {(r.group, r.reason, millis(r.hour) // 3_600_000, r.template): r.letters for r in found} == expected
    one = max(found, key=lambda row: row.letters)
    same = [at for g, r, at, t in map(facts, rows) if (g, r, t) == (one.group, one.reason, one.template)]
    assert millis(one.first_died_at) == min(at for at in same if at // 3_600_000 == millis(one.hour) // 3_600_000)


def test_a_stretch_means_letters_of_its_fingerprint_alone(spark: SparkSession) -> None:
    rows = made(42, 400, span_ms=300)  # so dense that some share a millisecond
    found = listed(stretches(letters(frame_of(spark, rows))))
    templates: dict[str, set[str]] = {}
    for one in found:
        chosen_ = one.body["filter"]
        meant = [facts(row) for row in rows if _fits(chosen_, facts(row))]
        assert len(meant) == one.letters
        templates.setdefault(one.fingerprint, set()).update(template for *_, template in meant)
    assert sorted(len(some) for some in templates.values()) == [1, 1, 1]
    kinds: dict[tuple[str, str, int], set[str]] = {}
    for group, reason, at, template in map(facts, rows):
        kinds.setdefault((group, reason, at), set()).add(template)
    alone = sum(len(kinds[group, reason, at]) == 1 for group, reason, at, _ in map(facts, rows))
    assert sum(one.letters for one in found) == alone < len(rows)


def _fits(wanted: dict[str, Any], told: tuple[str, str, int, str]) -> bool:
    """As the broker chooses."""
    group, reason, at, _ = told
    return (group, reason) == (wanted["group"], wanted["reason"]) and wanted["from"] <= at < wanted["to"]


def test_a_redrive_is_chosen_by_the_first_digits() -> None:
    found = [Stretch(name, "orders", 1, "/topics/orders/dlq/redrive", {}) for name in ("aa11", "aa22", "bb33")]
    assert of_lines(as_lines(found)) == found
    assert chosen("fingerprint=bb", found) == found[2:]
    for asked, told in (("fingerprint=aa", "more digits"), ("fingerprint=cc", "No letters"), ("bb33", "like")):
        with pytest.raises(PipelineError, match=told):
            chosen(asked, found)
