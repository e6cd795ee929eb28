"""The pipeline `archive` on a real node and a real session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from bench.node_process import NodeProcess
from goqueue.pipeline import archive, compact, replay
from goqueue.pipeline.lake import LakeUnwritable, read_table, write_stream, write_table
from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.running import Silent, Summary
from tests.pipeline.lake.shop import Shop, archived, check_archived, register, run_of
from tests.pipeline.running import ended, forget_last_commit
from tests.pipeline.topics import Row, contents, fill, make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def run(spark: SparkSession, node: NodeProcess, lake: Path, *topics: str, **options: str) -> Summary:
    return archive.run(spark, run_of(node, lake, *topics, **options), Silent())


# --- the shop -------------------------------------------------------------------------------------------------------


def test_three_topics_with_transactions_and_headers_are_there_once(spark: SparkSession, shop: Shop) -> None:
    check_archived(spark, shop.node, shop.lake, "orders", "payments", "visits")
    assert shop.summary.rows_out == 302 + 80 + 300
    assert shop.summary.batches > 2
    by_topic = {row["topic"]: row["rows"] for row in shop.summary.facts["by_topic"]}
    assert by_topic == {"orders": 302, "payments": 80, "visits": 300}


def test_metadata_time_text_and_day_are_columns(spark: SparkSession, shop: Shop) -> None:
    rows = read_table(spark, f"{shop.lake}/messages", where="topic = 'orders'").collect()
    assert {row["priority"] for row in rows} == {1, 2}
    assert all(row["text"].encode() == bytes(row["value"]) for row in rows)
    visits = read_table(spark, f"{shop.lake}/messages", where="topic = 'visits'")
    assert {str(row["date"]) for row in visits.select("date").collect()} == {"2025-11-15"}
    assert visits.where("text IS NULL").count() == 300


def test_files_are_by_topic_and_day_with_statistics(shop: Shop) -> None:
    table = DeltaTable(str(shop.lake / "messages"))
    assert table.metadata().partition_columns == ["topic", "date"]
    found = table.get_add_actions(flatten=True)
    names = ("min.partition", "max.partition", "min.offset", "max.offset", "min.timestamp")
    assert all(None not in found.column(name).to_pylist() for name in names)
    assert table.file_uris(file_pruning_predicate=[("topic", "=", "orders"), ("offset", ">", 100_000)]) == []


def test_a_poison_message_is_a_visible_skip_of_the_typed_table_only(spark: SparkSession, shop: Shop) -> None:
    typed = read_table(spark, f"{shop.lake}/typed/orders")
    assert sorted((row["id"], row["item"]) for row in typed.collect()) == [(n, f"ä{n}") for n in range(300)]
    assert shop.summary.facts["typed_skipped"] == 2
    assert any("2 messages of orders fit no typed row" in told for told in shop.summary.warnings)
    assert {one.value for one in archived(spark, shop.lake, "orders")} >= {b"no json at all", b'{"id": "x"}'}


# --- again and again ------------------------------------------------------------------------------------------------


def test_a_batch_that_spark_forgot_is_not_archived_twice(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    make_topic(shop.node, "again", 2)
    fill(shop.node, "again", [b"%d" % n for n in range(50)])
    run(spark, shop.node, tmp_path, "again")
    forget_last_commit(tmp_path / "_checkpoints/archive/again")
    repeated = run(spark, shop.node, tmp_path, "again")
    assert repeated.rows_out == 0
    fill(shop.node, "again", [b"more"])
    forget_last_commit(tmp_path / "_checkpoints/archive/again")
    assert run(spark, shop.node, tmp_path, "again").rows_out == 1
    check_archived(spark, shop.node, tmp_path, "again")


def test_other_topics_and_a_lost_checkpoint_double_nothing(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    for topic in ("first", "second"):
        make_topic(shop.node, topic, 1)
        fill(shop.node, topic, [b"%d" % n for n in range(20)])
    assert run(spark, shop.node, tmp_path, "first").rows_out == 20
    fill(shop.node, "first", [b"new"])
    both = run(spark, shop.node, tmp_path, "first", "second")
    assert (both.rows_in, both.rows_out) == (21, 21)  # the new choice begins where the lake ends
    again = run(spark, shop.node, tmp_path, "first")
    assert (again.rows_in, again.rows_out) == (1, 0)  # its checkpoint is behind the lake
    check_archived(spark, shop.node, tmp_path, "first", "second")


def test_only_messages_since_a_time_are_taken_up_of_a_new_topic(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    done = run(spark, shop.node, tmp_path, "visits", since="2025-11-15T14:00:00Z", typed="no")
    expected = {one.offset for one in contents(shop.node, "visits") if int((one.value or b"")[1:]) >= 200}
    assert done.rows_out == len(archived(spark, tmp_path, "visits"))
    assert expected <= {one.offset for one in archived(spark, tmp_path, "visits")}
    assert 95 <= done.rows_out <= 105


def test_a_dry_run_says_how_much_there_is(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    asked = msgspec.structs.replace(run_of(shop.node, tmp_path, "orders"), dry_run=True)
    assert archive.run(spark, asked, Silent()).facts["to_archive"] == 302
    assert list(tmp_path.iterdir()) == []


# --- typed tables ---------------------------------------------------------------------------------------------------


def test_avro_of_several_versions_is_read_as_the_latest(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    make_topic(shop.node, "bills", 1)
    cents = {"name": "cents", "type": "long"}
    first = register(shop.node, "bills-value", {"type": "record", "name": "Bill", "fields": [cents]}, "AVRO")
    fill(shop.node, "bills", [_framed(first, b"\x54"), _framed(first, b"\x54junk")])
    assert run(spark, shop.node, tmp_path, "bills").facts["typed_skipped"] == 1
    unit = {"name": "unit", "type": "string", "default": "EUR"}
    second = register(shop.node, "bills-value", {"type": "record", "name": "Bill", "fields": [cents, unit]}, "AVRO")
    fill(shop.node, "bills", [_framed(second, b"\x02\x06USD"), _framed(first, b"\x04")])
    run(spark, shop.node, tmp_path, "bills")
    rows = read_table(spark, f"{tmp_path}/typed/bills").orderBy("_offset").collect()
    assert [(row["cents"], row["unit"], row["_schemaId"]) for row in rows] == [
        (42, None, first),
        (1, "USD", second),
        (2, "EUR", first),
    ]


def _framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def test_a_typed_table_can_be_made_anew(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """For a schema that came after the messages, and for one that changed a column's type."""
    make_topic(shop.node, "late", 1, schema_validation="none")
    fill(shop.node, "late", [Row(b'{"n": 1}'), Row(b'{"n": 2}')])
    run(spark, shop.node, tmp_path, "late")
    register(shop.node, "late-value", {"type": "object", "properties": {"n": {"type": "integer"}}})
    fill(shop.node, "late", [Row(b'{"n": 3}')])
    run(spark, shop.node, tmp_path, "late")
    assert _numbers(spark, tmp_path) == [3]
    anew = run(spark, shop.node, tmp_path, "late", retype="late")
    assert _numbers(spark, tmp_path) == [1, 2, 3]
    assert anew.facts["typed_rows"] == 3

    _any_change(shop.node, "late-value")
    register(shop.node, "late-value", {"type": "object", "properties": {"n": {"type": "number"}}})
    fill(shop.node, "late", [Row(b'{"n": 4.5}')])
    warned = run(spark, shop.node, tmp_path, "late")
    assert any("late goes on without its typed table" in told for told in warned.warnings)
    assert len(archived(spark, tmp_path, "late")) == 4
    run(spark, shop.node, tmp_path, "late", retype="late")
    assert _numbers(spark, tmp_path) == [1.0, 2.0, 3.0, 4.5]


@pytest.mark.parametrize("versions", ["ab a ac", "ab ac"])
def test_a_member_that_went_before_another_came_stops_the_typed_table_alone(
    spark: SparkSession, shop: Shop, tmp_path: Path, versions: str
) -> None:
    """Nobody can know whether it was renamed."""
    topic = f"renamed-{versions.replace(' ', '-')}"
    make_topic(shop.node, topic, 1, schema_validation="none")
    warnings: list[str] = []
    for number, members in enumerate(versions.split()):
        properties = {name: {"type": "integer"} for name in members}
        register(shop.node, f"{topic}-value", {"type": "object", "properties": properties})
        _any_change(shop.node, f"{topic}-value")
        fill(shop.node, topic, [Row(json.dumps(dict.fromkeys(members, number)).encode())])
        warnings = run(spark, shop.node, tmp_path, topic).warnings
    assert any(f"{topic} goes on without its typed table" in told and f"retype={topic}" in told for told in warnings)
    check_archived(spark, shop.node, tmp_path, topic)
    run(spark, shop.node, tmp_path, topic, retype=topic)
    rows = read_table(spark, f"{tmp_path}/typed/{topic}").orderBy("_offset").collect()
    last = len(versions.split()) - 1
    assert [row["a"] for row in rows] == list(range(last + 1))
    assert rows[-1]["c"] == last and "b" not in rows[-1]


def test_protobuf_has_a_typed_table_that_grows(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """In frames with and without the message's indexes, as other clients write them; the bytes are spelled out."""
    make_topic(shop.node, "parcels", 1)
    parcel = 'syntax = "proto3";\nmessage Parcel {\n  int64 id = 1;\n  string city = 2;\n%s}\n'
    first = register(shop.node, "parcels-value", parcel % "", "PROTOBUF")
    oslo, rome = b"\x08\x07\x12\x04Oslo", b"\x08\x08\x12\x04Rome"
    fill(shop.node, "parcels", [_framed(first, b"\0" + oslo), rome, _framed(first, b"\0\xff\xff")])
    done = run(spark, shop.node, tmp_path, "parcels")
    assert (done.facts["typed_rows"], done.facts["typed_skipped"]) == (2, 1)
    more = "  repeated string tags = 3;\n  map<string, int32> counts = 4;\n"
    second = register(shop.node, "parcels-value", parcel % more, "PROTOBUF")
    fill(shop.node, "parcels", [_framed(second, b"\0" + oslo + b"\x1a\x01x\x22\x05\x0a\x01k\x10\x05")])
    assert run(spark, shop.node, tmp_path, "parcels").warnings == []
    rows = read_table(spark, f"{tmp_path}/typed/parcels").orderBy("_offset").collect()
    assert [(row["id"], row["city"], row["tags"], row["counts"]) for row in rows] == [
        (7, "Oslo", None, None),
        (8, "Rome", None, None),
        (7, "Oslo", ["x"], {"k": 5}),
    ]
    check_archived(spark, shop.node, tmp_path, "parcels")


def _any_change(node: NodeProcess, subject: str) -> None:
    from goqueue.client import Client
    from goqueue.client import schemas as calls

    with Client(node.url) as client:
        client.perform(calls.set_compatibility("NONE", subject))


def _numbers(spark: SparkSession, lake: Path) -> list[float]:
    return [row["n"] for row in read_table(spark, f"{lake}/typed/late").orderBy("_offset").collect()]


# --- bad input ------------------------------------------------------------------------------------------------------


def test_a_lake_that_takes_no_files_is_told_before_anything_runs(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    in_the_way = tmp_path / "lake"
    in_the_way.write_text("a file, not a folder")
    with pytest.raises(LakeUnwritable, match="Choose a folder or bucket that takes files"):
        run(spark, shop.node, in_the_way, "orders")


def test_a_lake_that_stops_taking_files_is_told(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """A file stands where the topic's folder has to be: tasks cannot write."""
    make_topic(shop.node, "blocked", 1)
    fill(shop.node, "blocked", [b"1"])
    run(spark, shop.node, tmp_path, "orders", typed="no")
    (tmp_path / "messages/topic=blocked").write_text("in the way")
    with pytest.raises(Exception, match="topic=blocked"):
        run(spark, shop.node, tmp_path, "blocked")
    (tmp_path / "messages/topic=blocked").unlink()
    run(spark, shop.node, tmp_path, "blocked")
    check_archived(spark, shop.node, tmp_path, "orders", "blocked")


def test_a_topic_that_is_not_there_is_told(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(TopicNotFound, match="There is no topic 'nowhere'"):
        run(spark, shop.node, tmp_path, "nowhere")


# --- tables for everybody -------------------------------------------------------------------------------------------


def test_a_frame_is_written_and_read_back(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    frame = spark.range(100).selectExpr("id", "id % 3 AS lane", "array(struct(id AS a)) AS nested")
    assert write_table(frame, table, partition_by=["lane"], app_id="job", version=0) == 100
    assert write_table(frame, table, partition_by=["lane"], app_id="job", version=0) == 0
    assert read_table(spark, table, columns=["id"], where="lane = 1").count() == 33
    assert write_table(frame.where("id < 0"), table, partition_by=["lane"]) == 0
    assert write_table(frame.selectExpr("id", "lane", "'x' AS other"), table, mode="overwrite") == 100
    back = read_table(spark, table)
    assert back.columns == ["id", "lane", "other"] and back.count() == 100
    assert json.loads(DeltaTable(table).schema().to_json())["fields"][0]["nullable"] is True


def test_a_stream_adds_each_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    given, table, checkpoint = tmp_path / "in", str(tmp_path / "t"), tmp_path / "checkpoint"
    given.mkdir()
    frame = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1).json(str(given))
    for number in range(4):
        (given / f"{number}.json").write_text(json.dumps({"n": number}))
        if number == 1:
            continue  # two batches in one run
        ended(write_stream(frame, table, "numbers", str(checkpoint)))
        if number == 2:
            forget_last_commit(checkpoint)
    assert sorted(row["n"] for row in read_table(spark, table).collect()) == [0, 1, 2, 3]


def test_what_a_batch_raises_is_told_and_not_lost_in_the_text(spark: SparkSession, tmp_path: Path) -> None:
    """Spark dies of long tracebacks; the query has to end with what went wrong."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/one.json").write_text(json.dumps({"n": 1}))
    frame = spark.readStream.schema("n bigint").json(str(tmp_path / "in"))
    broken = frame.selectExpr("raise_error(concat('the matter: ', repeat('x', 20000))) AS n")
    with pytest.raises(StreamingQueryException, match="the matter"):
        ended(write_stream(broken, str(tmp_path / "t"), "broken", str(tmp_path / "checkpoint")))


def test_the_functions_behind_are_there_for_everybody(spark: SparkSession, shop: Shop) -> None:
    options = {"url": shop.node.url, "subscribe": "orders", "includeHeaders": "true", "includeMetadata": "true"}
    rows = archive.archived(spark.read.format("goqueue").options(**options).load())
    assert rows.columns == read_table(spark, f"{shop.lake}/messages").columns
    assert rows.where("text IS NOT NULL AND date IS NOT NULL").count() == 302
    gone = rows.where("NOT (partition = 1 AND offset BETWEEN 3 AND 5)")
    found = [tuple(row) for row in compact.holes(gone).collect()]
    assert found == [("orders", 1, "gap", 3, 5)]
    sent = replay.replayed(rows.where("partition = 1 AND offset = 3")).first()
    assert sent is not None and sent["headers"][-2]["value"] == b"orders/1/3"
