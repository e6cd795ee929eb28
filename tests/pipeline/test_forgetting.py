"""One key removed from topics and tables by the command line: told first, then gone, also from older versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from click.testing import CliRunner, Result
from deltalake import DeltaTable, write_deltalake

from bench.node_process import NodeProcess
from goqueue.cli import app
from goqueue.client import Client, NewMessage
from goqueue.pipeline.lake.commits import QueryBatch
from goqueue.pipeline.lake.iceberg import open_iceberg
from goqueue.pipeline.lake.merging import MergeRule
from goqueue.pipeline.lake.stores import IcebergStore
from tests.pipeline.lake.columns import columns

CUSTOMERS = columns(_key="string", customer="bigint", city="string")


def forget(*words: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", "forget", *map(str, words)], prog_name="goqueue")


def fill_lake(lake: Path, offsets: list[int]) -> None:
    """An archive, a pipeline's table, and a quarantine that only knows offsets."""
    archive = {
        "key": [b"ann", b"bob"] * 2,
        "topic": ["orders"] * 4,
        "partition": pa.array([0] * 4, pa.int32()),
        "offset": [7, 8, 9, 10],
    }
    write_deltalake(str(lake / "messages"), pa.table(archive), partition_by=["topic"])
    places = [7, *offsets, 10_000]
    quarantine = {
        "row": ["{}"] * len(places),
        "topic": ["orders"] * len(places),
        "partition": pa.array([0] * len(places), pa.int32()),
        "offset": places,
    }
    write_deltalake(str(lake / "quarantine"), pa.table(quarantine))
    write_deltalake(str(lake / "deep/other"), pa.table({"name": ["ann"]}))
    kept = {f"_{name}": quarantine[name] for name in ("topic", "partition", "offset")}
    # A pipeline's table that keeps where its rows come from; `topic` is a column of its own, and one name is known.
    own = {"topic": ["news"] * len(places), "name": ["x"] * (len(places) - 1) + ["ann"]}
    write_deltalake(str(lake / "traced"), pa.table({**kept, **own}))
    store = IcebergStore(f"sqlite:///{lake}/_iceberg.db")
    store.ensure(str(lake / "customers"), CUSTOMERS)
    for number, (key, city) in enumerate((("ann", "Oslo"), ("bob", "Rome"))):
        rows = pa.table({"_key": [key], "customer": [number], "city": [city]})
        store.merge(rows, str(lake / "customers"), MergeRule(["_key"]), CUSTOMERS, QueryBatch("q", number))


def test_a_key_is_told_then_removed(module_node: NodeProcess, tmp_path: Path) -> None:
    with Client(module_node.url) as client:
        client.create_topic("orders", partitions=1)
        client.create_topic("profiles", partitions=2, config={"cleanup.policy": "compact"})
        client.publish_many("orders", [NewMessage(str(n), key=("ann", "bob")[n % 2]) for n in range(6)])
        client.publish_many("profiles", [NewMessage(str(n), key=("ann", "bob")[n % 2]) for n in range(6)])
    lake = tmp_path / "lake"
    fill_lake(lake, [0, 2])
    asked = ("ann", "--topics", "orders,profiles", "--lake", lake, "--column", "name", "--url", module_node.url)
    looked = forget(*asked, "-o", "json")
    assert looked.exit_code and "add --yes" in looked.stderr
    told: list[dict[str, Any]] = json.loads(looked.stdout)
    assert {one["place"]: one["found"] for one in told} == {
        "orders": 3,
        "profiles": 3,
        "messages": 2,
        "customers": 1,
        "deep/other": 1,
        "quarantine": 3,
        "traced": 4,
    }
    assert "retention removes the last one after" in told[0]["plan"] and "tombstone" in told[1]["plan"]
    assert DeltaTable(str(lake / "messages")).to_pyarrow_table().num_rows == 4

    done = forget(*asked, "--yes", "-o", "json")
    assert done.exit_code == 0, done.output
    removed = {one["place"]: one["removed"] for one in json.loads(done.stdout)}
    assert removed == {"profiles": 0, "messages": 2, "customers": 1, "deep/other": 1, "quarantine": 3, "traced": 4}
    assert "orders: 3 messages: a log cannot lose single messages" in done.stderr
    assert DeltaTable(str(lake / "messages")).to_pyarrow_table()["key"].to_pylist() == [b"bob", b"bob"]
    assert DeltaTable(str(lake / "quarantine")).to_pyarrow_table()["offset"].to_pylist() == [10_000]
    assert open_iceberg(str(lake / "customers")).scan().to_arrow()["_key"].to_pylist() == ["bob"]
    assert (
        len(list((lake / "customers/data").rglob("*.parquet"))) == 1
        and len(list((lake / "messages").rglob("*.parquet"))) == 1
    )
    with Client(module_node.url) as client:
        last = client.read("profiles").messages
        assert [one.key for one in last if one.value is None] == [b"ann"]
    assert [one["found"] for one in json.loads(forget(*asked, "-o", "json").stdout)][2:] == [0, 0, 0, 0, 0]


def test_nowhere_to_look_is_refused() -> None:
    assert "Say where to look" in forget("ann").stderr


def test_a_column_that_no_table_has_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "people"), pa.table({"customerId": ["ann", "bob"]}))
    refused = forget("ann", "--lake", tmp_path, "--column", "customerid", "--yes")
    assert refused.exit_code and "has a column 'customerid'; did you mean 'customerId'?" in refused.stderr
    assert DeltaTable(str(tmp_path / "people")).to_pyarrow_table().num_rows == 2
    done = forget("ann", "--lake", tmp_path, "--column", "customerId", "--yes")
    assert done.exit_code == 0 and DeltaTable(str(tmp_path / "people")).to_pyarrow_table().num_rows == 1


def test_names_of_columns_may_have_dots_and_other_signs(tmp_path: Path) -> None:
    """As tables of other engines have them."""
    rows = {"person.id": ["ann", "bob", "eve"], "his friend": ["bob", "eve", "ann"], 'a "b': ["eve", "bob", "bob"]}
    write_deltalake(str(tmp_path / "people"), pa.table(rows))
    asked = [word for column in rows for word in ("--column", column)]
    done = forget("ann", "--lake", tmp_path, *asked, "--yes", "-o", "json")
    assert done.exit_code == 0, done.output
    assert [one["removed"] for one in json.loads(done.stdout)] == [2]
    assert DeltaTable(str(tmp_path / "people")).to_pyarrow_table()["person.id"].to_pylist() == ["bob"]
