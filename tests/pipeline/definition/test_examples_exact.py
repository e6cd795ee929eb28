"""The example files at work on a node: all that they leave behind is what plain Python makes of the same messages."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from goqueue.base.times import time_text
from goqueue.cli import app
from goqueue.pipeline.definition.reading import PipelineFile, read_file
from tests.pipeline.definition import example_oracles as oracle
from tests.pipeline.definition import example_rows as rows_for
from tests.pipeline.definition.example_oracles import Row
from tests.pipeline.definition.example_rows import Batch, Chance, values
from tests.pipeline.definition.files import messages, publish, run, table
from tests.pipeline.definition.test_examples import EXAMPLES
from tests.pipeline.topics import Stored, contents

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

SEED: Final = 7


def example(name: str, folder: Path) -> PipelineFile:
    copy(EXAMPLES / f"{name}.toml", folder)
    return read_file(folder / f"{name}.toml")


def bag(rows: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Rows in an order that does not depend on where they come from, each as often as it is there."""
    return sorted((sorted(row.items()) for row in rows), key=repr)


def rows_in(spark: SparkSession, file: PipelineFile, name: str, *without: str) -> list[Row]:
    return [
        {key: _in_utc(value) for key, value in row.items() if key not in without} for row in table(spark, file, name)
    ]


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def quarantine(spark: SparkSession, file: PipelineFile, view: str) -> list[Row]:
    rows = rows_in(spark, file, "quarantine", "at")
    assert {(row.pop("pipeline"), row.pop("view")) for row in rows} == {(file.definition.name, view)}
    return [row | {"row": json.loads(row["row"])} for row in rows]


def expected_quarantine(
    node: NodeProcess, topic: str, batches: Iterable[Batch], columns: oracle.Columns, rules: oracle.Rules
) -> list[Row]:
    return list(oracle.quarantined(topic, all_of(node, topic, batches), columns, rules))


def all_of(node: NodeProcess, topic: str, batches: Iterable[Batch]) -> list[Stored]:
    """What the topic has, which is what was published."""
    stored = contents(node, topic)
    published = Counter(one.encode() for batch in batches for one in values(batch))
    assert Counter(one.value for one in stored) == published
    return stored


# --- orders_payments, and daily_export from its table -------------------------------------------------------------


class Shop(NamedTuple):
    """The pipeline whose lake has the table, and what was published for it."""

    file: PipelineFile
    orders: list[Batch]
    payments: list[Batch]

    def paid(self) -> list[Row]:
        return oracle.paid_orders([values(one) for one in self.orders], [values(one) for one in self.payments])


@pytest.fixture(scope="module")
def shop(spark: SparkSession, module_node: NodeProcess, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    found = Shop(example("orders_payments", tmp_path_factory.mktemp("shop")), [], [])
    for orders, payments in rows_for.orders_and_payments(Chance(SEED)):
        publish(module_node, "orders", orders)
        publish(module_node, "payments", payments)
        run(spark, found.file, module_node)
        found.orders.append(orders)
        found.payments.append(payments)
    return found


def test_orders_meet_their_payments(spark: SparkSession, module_node: NodeProcess, shop: Shop) -> None:
    assert bag(rows_in(spark, shop.file, "paid_orders")) == bag(shop.paid())
    broken = expected_quarantine(module_node, "orders", shop.orders, oracle.ORDERS, oracle.ORDER_RULES)
    assert bag(quarantine(spark, shop.file, "orders")) == bag(broken)


def test_totals_of_days_are_exported_for_spreadsheets(
    spark: SparkSession, module_node: NodeProcess, shop: Shop
) -> None:
    """Python's `csv` reads a file as spreadsheets do. Every export takes the place of the one before."""
    folder = shop.file.path.parent
    file = example("daily_export", folder)
    for _ in range(2):
        run(spark, file, module_node)
        assert bag(exported(folder / "export/totals")) == bag(oracle.daily_totals(shop.paid()))


def exported(folder: Path) -> Iterator[Row]:
    for path in folder.glob("*.csv"):
        with path.open(newline="") as lines:
            for row in csv.DictReader(lines):
                amount = float(row["amount"]) if row["amount"] else None
                yield row | {"orders": int(row["orders"]), "amount": amount}


# --- click_sessions and fraud -------------------------------------------------------------------------------------


def test_clicks_become_sessions(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    """A session is written when nothing more can come into it. `approx_count_distinct` is exact for so few pages."""
    file = example("click_sessions", tmp_path)
    batches = list(rows_for.clicks(Chance(SEED)))
    for batch in batches:
        publish(module_node, "clicks", batch)
        run(spark, file, module_node)
    assert bag(rows_in(spark, file, "sessions")) == bag(oracle.sessions([values(one) for one in batches]))
    broken = expected_quarantine(module_node, "clicks", batches, oracle.CLICKS, oracle.CLICK_RULES)
    assert bag(quarantine(spark, file, "clicks")) == bag(broken)


def test_cards_that_are_used_often_raise_alerts(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    """An alert is published once, when no more payments can come into its window."""
    file = example("fraud", tmp_path)
    batches = list(rows_for.card_payments(Chance(SEED)))
    publish(module_node, "fraud-alerts", [])
    for batch in batches:
        publish(module_node, "card-payments", batch)
        run(spark, file, module_node)
    expected = oracle.card_uses([values(one) for one in batches])
    assert bag(rows_in(spark, file, "card_uses")) == bag(expected.table)
    alerts = [(row["card"], oracle.as_json(row)) for row in expected.alerts]
    assert messages(spark, module_node, "fraud-alerts") == sorted(alerts, key=str)
    broken = expected_quarantine(module_node, "card-payments", batches, oracle.CARD_PAYMENTS, oracle.CARD_RULES)
    assert bag(quarantine(spark, file, "payments")) == bag(broken)


# --- customers ----------------------------------------------------------------------------------------------------


def test_customers_are_as_their_last_change_says(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    file = example("customers", tmp_path)
    batches = list(rows_for.changes(Chance(SEED)))
    for batch in batches:
        publish(module_node, "customer-changes", batch, key="id")
        run(spark, file, module_node)
    assert bag(rows_in(spark, file, "customers")) == bag(oracle.customers([values(one) for one in batches]))
    broken = expected_quarantine(module_node, "customer-changes", batches, oracle.CHANGES, oracle.CHANGE_RULES)
    assert bag(quarantine(spark, file, "changes")) == bag(broken)


# --- readings -----------------------------------------------------------------------------------------------------


def test_readings_go_through_again_after_the_rule_was_mended(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """First what came since a time, then everything; each reading is in the table or in the quarantine, once."""
    chance, file = Chance(SEED), example("readings", tmp_path)
    before, after, more = (rows_for.readings(chance, count) for count in (400, 400, 100))
    publish(module_node, "readings", before)
    run(spark, file, module_node)
    old = all_of(module_node, "readings", [before])
    since = time_text(time.time_ns() // 10**6)
    publish(module_node, "readings", after)
    run(spark, file, module_node)
    stored = all_of(module_node, "readings", [before, after])
    check_readings(spark, file, stored, [])

    file.path.write_text(file.text.replace("BETWEEN -90 AND 60", "BETWEEN -90 AND 1000"))
    mended = read_file(file.path)
    replay(mended, since)
    publish(module_node, "readings", more)
    run(spark, mended, module_node)
    stored = all_of(module_node, "readings", [before, after, more])
    check_readings(spark, mended, old, [one for one in stored if one not in old])

    replay(mended, "2026-01-01T00:00:00Z")
    run(spark, mended, module_node)
    check_readings(spark, mended, [], stored)


def replay(file: PipelineFile, since: str) -> None:
    asked = ("pipeline", "replay", str(file.path), "--from", since, "--yes")
    done = CliRunner().invoke(app, asked, prog_name="goqueue")
    assert done.exit_code == 0, done.output


def check_readings(spark: SparkSession, file: PipelineFile, old: list[Stored], mended: list[Stored]) -> None:
    """`old` went by the rule of the example, `mended` by one that knows ovens."""
    parts = [(old, oracle.reading_rules(60)), (mended, oracle.reading_rules(1_000))]
    kept = [row for part, rules in parts for row in oracle.valid("readings", part, oracle.READINGS, rules)]
    broken = [row for part, rules in parts for row in oracle.quarantined("readings", part, oracle.READINGS, rules)]
    assert bag(rows_in(spark, file, "readings", "_timestamp")) == bag(kept)
    assert bag(quarantine(spark, file, "readings")) == bag(broken)
