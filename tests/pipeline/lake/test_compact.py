"""The pipeline `compact` on copies of the shop's lake."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable

from goqueue.pipeline import archive, compact
from goqueue.pipeline.lake import read_table, write_table
from goqueue.pipeline.lake.errors import LakeDamaged, LakeError
from goqueue.pipeline.running import Run, Silent
from tests.pipeline.lake.rows import files_in
from tests.pipeline.lake.shop import Shop, check_archived, run_of
from tests.pipeline.topics import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = ("orders", "payments", "visits")

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def lake(shop: Shop, tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(shop.lake, tmp_path / "lake"))


def test_files_get_fewer_and_rows_stay(spark: SparkSession, shop: Shop, lake: Path) -> None:
    orphan = lake / "messages/topic=orders/date=2025-11-15/part-orphan.parquet"
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.write_bytes(b"left by a task that lost")
    before = files_in(lake / "messages")
    done = compact.run(spark, run_of(shop.node, lake, retention="0s"), Silent())
    assert files_in(lake / "messages") == len(DeltaTable(str(lake / "messages")).file_uris()) == 3 < before
    assert not orphan.exists()
    assert any("With so short a retention" in told for told in done.warnings)
    check_archived(spark, shop.node, lake, *TOPICS)
    assert read_table(spark, f"{lake}/typed/orders").count() == 300
    archived_again = archive.run(spark, run_of(shop.node, lake, *TOPICS), Silent())
    assert archived_again.rows_out == 0


def test_gaps_of_transactions_are_explained_and_lost_messages_are_found(
    spark: SparkSession, shop: Shop, lake: Path
) -> None:
    table = DeltaTable(str(lake / "messages"))
    table.delete("topic = 'orders' AND partition = 1 AND \"offset\" BETWEEN 10 AND 14")
    done = compact.run(spark, run_of(shop.node, lake), Silent())
    facts = done.facts
    assert facts["offsets_explained"] > 0  # payments: ends of transactions, and aborted ones
    assert (facts["offsets_lost"], facts["offsets_unknown"], facts["offsets_doubled"]) == (5, 0, 0)
    assert facts["offsets_missing"] == facts["offsets_explained"] + 5
    assert "5 messages of the log are not in the archive: orders/1 10-14." in done.warnings
    holes = read_table(spark, f"{lake}/studies/holes").collect()
    assert [tuple(row) for row in holes] == [("orders", 1, "gap", 10, 14, "lost", 5)]
    places = {(row["topic"], row["partition"]): row for row in read_table(spark, f"{lake}/studies/audit").collect()}
    assert places["orders", 1]["missing"] == places["orders", 1]["lost"] == 5
    held = {(topic, one.partition) for topic in TOPICS for one in contents(shop.node, topic)}
    assert set(places) == held


def test_without_a_node_gaps_are_unknown(spark: SparkSession, lake: Path) -> None:
    done = compact.run(spark, Run(None, None, (), str(lake)), Silent())
    assert done.facts["offsets_unknown"] == done.facts["offsets_missing"] > 0
    assert any("not in the log to look up: payments/" in told for told in done.warnings)


def test_messages_that_are_there_twice_are_an_error(spark: SparkSession, shop: Shop, lake: Path) -> None:
    some = read_table(spark, f"{lake}/messages", where="topic = 'visits' AND partition = 0 AND offset < 3")
    write_table(some, f"{lake}/messages")
    with pytest.raises(LakeDamaged, match="3 messages are in the archive more than once: visits/0 0-0, visits/0 1-1"):
        compact.run(spark, run_of(shop.node, lake), Silent())


def test_old_days_expire_and_are_not_called_lost(spark: SparkSession, shop: Shop, lake: Path) -> None:
    """The visits are of 2025; the rest is of today."""
    done = compact.run(spark, run_of(shop.node, lake, expire="30d", retention="0s", audit="no"), Silent())
    assert done.facts["rows_expired"] == 300
    assert read_table(spark, f"{lake}/messages", where="topic = 'visits'").count() == 0
    check_archived(spark, shop.node, lake, "orders", "payments")
    assert not list((lake / "messages/topic=visits").rglob("*.parquet"))


def test_a_dry_run_only_looks(spark: SparkSession, shop: Shop, lake: Path) -> None:
    before = files_in(lake)
    asked = msgspec.structs.replace(run_of(shop.node, lake, expire="30d", retention="0s"), dry_run=True)
    assert compact.run(spark, asked, Silent()).facts["rows_expired"] == 300
    assert files_in(lake) == before
    assert not (lake / "studies").exists()


def test_what_cannot_be_compacted_is_told(spark: SparkSession, shop: Shop, lake: Path, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="There is no table 'nothing' in"):
        compact.run(spark, run_of(shop.node, lake, tables="nothing"), Silent())
    with pytest.raises(LakeError, match="There are no tables in"):
        compact.run(spark, run_of(shop.node, tmp_path / "empty"), Silent())
    with pytest.raises(LakeError, match="file-size is not a size"):
        compact.run(spark, run_of(shop.node, lake, audit="no", **{"file-size": "big"}), Silent())
