"""Every study on a real node: passes that are cut off, done over and go on, against what the node says over REST."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from bench.node_process import NodeProcess
from goqueue.client.dead_letters import DeadLetter
from goqueue.client.traces import Trace
from goqueue.pipeline.analytics import dlq, latency, quality, rates
from goqueue.pipeline.analytics.tables import place
from goqueue.pipeline.running import Run, Silent, Summary
from tests.pipeline.analytics.history import Shop
from tests.pipeline.topics import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

TEMPLATES = {"no": "no item <n>", "card": "card of user-<n> was refused"}


@pytest.fixture
def shop(module_node: NodeProcess, request: pytest.FixtureRequest) -> Iterator[Shop]:
    made = Shop(module_node, request.node.name.removeprefix("test_")[:40], seed=61)
    yield made
    made.close()


def run_of(shop: Shop, tmp_path: Path, **options: str) -> Run:
    return Run(shop.node.kafka, shop.node.url, (shop.topic,), str(tmp_path / "lake"), options=options)


def table(run: Run, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(place(run.lake, name)).to_pyarrow_table().to_pylist()
    return rows


def cut_off(study: Any, spark: SparkSession, run: Run, patch: pytest.MonkeyPatch, name: str) -> None:
    """A pass that dies when it comes to a function."""

    def die(*args: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with patch.context() as broken:
        broken.setattr(study, name, die)
        with pytest.raises(KeyboardInterrupt):
            study.run(spark, run, Silent())


# --- rates -----------------------------------------------------------------------------------------------------


def windows(shop: Shop) -> Counter[tuple[int, int, str]]:
    return Counter((one.timestamp // 1000, one.partition, one.priority) for one in shop.messages())


def test_rates(spark: SparkSession, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(shop, tmp_path, window="1s")
    shop.trade(120)
    cut_off(rates, spark, run, monkeypatch, "traffic")
    other = make_topic(shop.node, "something_else")
    first = rates.run(spark, Run(run.kafka, run.url, (other,), run.lake, options=run.options), Silent())
    shop.trade(60)
    second = rates.run(spark, run, Silent())
    third = rates.run(spark, run, Silent())
    assert (first.rows_in, second.rows_in, third.rows_in, third.batches) == (120, 60, 0, 0)
    names = ("critical", "high", "normal", "low", "background")
    found = {
        (round(r["start"].timestamp()), r["partition"], names[r["lane"]]): r["messages"] for r in table(run, "rates")
    }
    assert found == windows(shop)
    size = sum(len(one.key or b"") + len(one.value or b"") for one in shop.messages())
    assert sum(row["bytes"] for row in table(run, "traffic")) == size
    assert sum(row["messages"] for row in table(run, "traffic")) == 180
    lags = Counter((row["group"], row["lag"]) for row in table(run, "lag"))
    assert lags == {(shop.group, 0): 2 * 2}  # two samples of two partitions


# --- latency ---------------------------------------------------------------------------------------------------


def measured(found: Trace) -> Iterator[tuple[str, int]]:
    """Stages of a message that one group takes, from its events as REST tells them, in microseconds."""
    last: dict[str, int] = {}
    for one in found.spans:
        if one.name == "consume.fetched":
            stage = "redeliver" if "consume.nacked" in last else "publish.deliver"
            yield stage, one.at_us - last.get("consume.nacked", last["publish.persisted"])
        elif one.name == "consume.acked":
            yield "lease.ack", one.took_us
        elif one.name in ("consume.nacked", "consume.rejected"):
            yield "lease.fail", one.took_us
        elif one.name == "dlq.routed":
            yield "dlq.bury", one.at_us - max(last.get("consume.nacked", 0), last.get("consume.rejected", 0))
        elif one.name == "delay.ready":
            yield "delay.wait", one.took_us
        last[one.name] = one.at_us


def test_latency(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    by_files = run_of(shop, tmp_path, traces=str(shop.node.data_dir / "traces"))
    shop.trade(60)
    shop.wait_durable()
    latency.run(spark, by_files, Silent())
    shop.trade(40)
    shop.wait_durable()
    assert latency.run(spark, run_of(shop, tmp_path), Silent()).rows_in > 0  # asked over REST
    assert latency.run(spark, by_files, Silent()).rows_in == 0  # the files have the same events
    expected: dict[str, list[int]] = {}
    for found in shop.traces():
        for stage, took in measured(found):
            expected.setdefault(stage, []).append(took)
    rows = {row["stage"]: row for row in table(by_files, "stages") if row["topic"] == shop.topic}
    assert {stage: rows[stage]["count"] for stage in expected} == {stage: len(some) for stage, some in expected.items()}
    for stage, some in expected.items():  # REST cuts both ends of a time to microseconds
        assert abs(rows[stage]["max_us"] - max(some)) <= 2_000 if stage == "delay.wait" else 2
        assert abs(rows[stage]["sum_us"] - sum(some)) <= len(some) * (1_000 if stage == "delay.wait" else 2)


# --- dead letters ----------------------------------------------------------------------------------------------


def deaths(found: list[DeadLetter]) -> Counter[tuple[str, str, int | None]]:
    """By reason, error, and version of the schema that the message named."""
    versions = [1 if "schema-id" in one.headers else None for one in found]
    errors = [TEMPLATES[one.error.partition(" ")[0]] for one in found]
    return Counter(zip([one.reason for one in found], errors, versions, strict=True))


def test_dlq(spark: SparkSession, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(shop, tmp_path)
    assert dlq.run(spark, run, Silent()).facts["letters"] == 0
    assert table(run, "dlq") == []
    shop.trade(120)
    shop.wait_durable()
    cut_off(dlq, spark, run, monkeypatch, "merge_once")
    dlq.run(spark, run, Silent())
    shop.trade(60)
    shop.wait_durable()
    summary = dlq.run(spark, run, Silent())
    found: Counter[tuple[str, str, int | None]] = Counter()
    for row in table(run, "dlq"):
        found[row["reason"], row["template"], row["schema_version"]] += row["letters"]
    assert found == deaths(shop.letters())
    assert {version for _, _, version in found} == {1, None}
    assert len(table(run, "letters")) == summary.facts["letters"] == shop.deaths
    _redrive(spark, shop, run, summary)


def _redrive(spark: SparkSession, shop: Shop, run: Run, summary: Summary) -> None:
    """First dry, then for good, then again: the letters of the fingerprint go, and no others."""
    kind = next(one for one in summary.facts["kinds"] if one["template"] == TEMPLATES["no"])
    lines = [json.loads(line) for line in Path(summary.facts["redrive_list"]).read_text().splitlines()]
    listed = sum(line["letters"] for line in lines if line["fingerprint"] == kind["fingerprint"])
    before, asked = deaths(shop.letters()), {"redrive": f"fingerprint={kind['fingerprint']}"}
    dry = dlq.run(spark, run_with(run, **asked), Silent())
    assert (dry.facts["matched"], dry.facts["would_redrive"]) == (listed, listed)
    assert deaths(shop.letters()) == before
    done = dlq.run(spark, run_with(run, **asked, apply="true"), Silent())
    assert done.facts["redriven"] == listed > 0
    left = deaths(shop.letters())
    assert left <= before
    assert {kind[1] for kind in before - left} == {TEMPLATES["no"]}
    assert (before - left).total() == listed
    again = dlq.run(spark, run_with(run, **asked, apply="true"), Silent())
    assert (again.facts["redriven"], again.facts["already_gone"]) == (0, listed)


def run_with(run: Run, **options: str) -> Run:
    return Run(run.kafka, run.url, run.topics, run.lake, options=options)


# --- quality ---------------------------------------------------------------------------------------------------


def misfits(shop: Shop) -> set[tuple[int, int]]:
    """Places of the messages that do not fit the shop's schema."""

    def fits(value: bytes | None) -> bool:
        try:
            told = json.loads(value or b"")
        except ValueError:
            return False
        amount = told.get("amount") if isinstance(told, dict) else None
        return isinstance(amount, int | float) and amount >= 0

    return {(one.partition, one.offset) for one in shop.messages() if not fits(one.value)}


def test_quality(spark: SparkSession, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"known": "get_json_object(text, \'$.id\') IS NOT NULL"}')
    run = run_of(shop, tmp_path, rules=str(rules))
    shop.trade(120)
    cut_off(quality, spark, run, monkeypatch, "write_drift")
    first = quality.run(spark, run, Silent())
    shop.trade(60, coupon="spring")
    second = quality.run(spark, run, Silent())
    assert quality.run(spark, run, Silent()).rows_in == 0
    rows = DeltaTable(run.place("quarantine")).to_pyarrow_table().to_pylist()
    bad = [(row["partition"], row["offset"]) for row in rows if "schema" in {one["check"] for one in row["reasons"]}]
    assert len(bad) == len(set(bad))
    assert set(bad) == misfits(shop)
    checks = {(row["number"], row["check"]): row for row in table(run, "quality")}
    assert [checks[number, "all"]["rows"] for number in (0, 1)] == [120, 60]
    assert first.rows_out + second.rows_out == len(rows)
    assert sum(row["rows"] for row in table(run, "fields") if row["field"] == "") == 180
    drift = [one for one in table(run, "drift") if one["field"]]  # new kinds of nonsense are of the whole value
    assert [(one["number"], one["field"], one["change"]) for one in drift] == [(1, "coupon", "new field")]


# --- without a node --------------------------------------------------------------------------------------------


def archived(spark: SparkSession, shop: Shop, run: Run, starting: dict[int, int]) -> None:
    """What came since these offsets goes into the lake, as the archive has it."""
    from goqueue.pipeline.lake import write_table
    from goqueue.pipeline.lake.messages import READ, with_day_and_text
    from goqueue.pipeline.lake.messages import SCHEMA as ARCHIVED

    offsets = json.dumps({shop.topic: {str(number): start for number, start in starting.items()}})
    options = {"subscribe": shop.topic, "columns": ",".join(READ), "startingOffsets": offsets}
    frame = spark.read.format("goqueue").options(**options, **{"kafka.bootstrap.servers": shop.node.kafka}).load()
    rows = frame.mapInArrow(lambda batches: map(with_day_and_text, batches), ARCHIVED)
    write_table(rows, run.place("messages"), partition_by=("topic", "date"))


def test_the_archive_will_do(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """What the lake holds is read there, with no node in sight; the next pass may read the node again."""
    run = Run(None, None, (), str(tmp_path / "lake"), options={"window": "1s"})
    shop.trade(40)
    archived(spark, shop, run, {0: 0, 1: 0})
    summary = rates.run(spark, run, Silent())
    assert (summary.rows_in, len(summary.warnings)) == (40, 1)
    ends = {number: sum(one.partition == number for one in shop.messages()) for number in (0, 1)}
    shop.trade(30)
    archived(spark, shop, run, ends)
    assert rates.run(spark, run, Silent()).rows_in == 30
    shop.trade(20)
    live = run_of(shop, tmp_path, window="1s", source="topics")
    assert rates.run(spark, live, Silent()).rows_in == 20
    assert sum(row["messages"] for row in table(run, "rates")) == 90 == sum(windows(shop).values())


def test_the_shop_settles(shop: Shop) -> None:
    """What the other tests build on: every order is acked or dead, and each death has its letter."""
    shop.trade(30)
    shop.wait_durable()
    acked = {one.trace_id for one in shop.traces() if one.last == "consume.acked"}
    assert len(acked) + shop.deaths == 30
