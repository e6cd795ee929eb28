"""Rows checked by Spark against schemas and rules, and their fields counted, against plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.pipeline.analytics.checks import CheckPlan, TopicSchemas
from goqueue.pipeline.analytics.fields import fields
from goqueue.pipeline.analytics.messages import with_text
from goqueue.pipeline.analytics.quality import quality
from goqueue.pipeline.analytics.rules import Rule
from goqueue.pipeline.lake.messages import texts
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.source.registry import Registered
from tests.pipeline.analytics.rows import frame_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

PRICE = '{"type": "object", "properties": {"price": {"type": "number", "minimum": 0}}, "required": ["price"]}'
BOOK = CheckPlan({"orders": TopicSchemas("none", (1,), 1)}, {1: Registered(1, "JSON", PRICE)})
RULES = [
    Rule("cheap", "get_json_object(text, '$.price') < 50.0", ("orders",)),
    Rule("keyed", "key IS NOT NULL"),
]
JUNK = (b"\xff\x00", b"hello", b"", None, b'{"price": "dear"}', b"\0\0\0\0\x01" + b'{"price": 7}')


def made(seed: int, count: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = [
        {
            "topic": chance.choice(("orders", "mails")),
            "offset": number,
            "key": chance.choice((None, b"k", b"k")),
            "value": chance.choice(JUNK) if chance.random() < 0.2 else _value(chance),
        }
        for number in range(count)
    ]
    return [{**row, "schemaId": 1 if row["value"] and row["value"][0] == 0 else None} for row in rows]


def _value(chance: random.Random) -> bytes:
    price = chance.choice((chance.randrange(-20, 80), chance.random() * 100, None))
    return json.dumps({"price": price} if chance.random() < 0.8 else {"id": price}).encode()


def plain(row: dict[str, Any]) -> set[str]:
    """What must be found wrong with a row."""
    value = row["value"]
    price = _price(value)
    wrong = set() if row["key"] else {"keyed"}
    if row["topic"] == "orders":
        wrong |= {"schema"} if value is not None and (price is None or price < 0) else set()
        wrong |= {"cheap"} if price is None or price >= 50 else set()
    return wrong


def _price(value: bytes | None) -> float | None:
    try:
        found = json.loads((value or b"")[5 if value and value[0] == 0 else 0 :])
    except ValueError:
        return None
    price = found.get("price") if isinstance(found, dict) else None
    return price if isinstance(price, int | float) else None


def test_every_row_has_its_reasons(spark: SparkSession) -> None:
    rows = made(51, 600)
    found = quality(frame_of(spark, rows), RULES, BOOK).collect()
    told = {row.offset: {one.check for one in row.reasons} for row in found}
    assert told == {row["offset"]: plain(row) for row in rows}
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    misfits = Counter(one.why for row in found for one in row.reasons if one.check == "schema")
    assert misfits['$.price: "dear" is not of type "number"'] > 0


def test_fields_are_counted_by_type(spark: SparkSession) -> None:
    rows = made(52, 400)
    expected: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        for field, kind in _fields(row["value"]):
            expected[row["topic"], field, kind] += 1
    found = fields(with_text(frame_of(spark, rows))).collect()
    assert {(row.topic, row.field, row.type): row.rows for row in found} == expected


def _fields(value: bytes | None) -> list[tuple[str, str]]:
    if value is None:
        return [("", "tombstone")]
    try:
        text = value[5 if value[:1] == b"\0" else 0 :].decode()
    except UnicodeDecodeError:
        return [("", "binary")]
    try:
        found = json.loads(text)
    except ValueError:
        return [("", "text")]
    kinds = {int: "integer", float: "number", str: "string", type(None): "null"}
    return [("", "object"), *((name, kinds[type(member)]) for name, member in found.items())]


def test_text_is_what_the_archive_makes_of_values(spark: SparkSession) -> None:
    import pyarrow as pa

    values = [
        *JUNK,
        b"\0",
        b"\0\0\0\0\x01[]",
        b"\0\0\0\0\x01x",
        "grün".encode(),
        b"\0\0\0\0\x01{\xff}",
        b"\0\0\0\0\x01",
    ]
    rows = [{"offset": number, "value": value} for number, value in enumerate(values)]
    found = {row.offset: row.text for row in with_text(frame_of(spark, rows)).collect()}
    assert [found[number] for number in range(len(values))] == texts(pa.array(values, pa.binary())).to_pylist()


@pytest.mark.parametrize(
    ("check", "told"),
    [
        ("no_such_column > 1", "'bad' cannot be used"),
        ("price >", "'bad' cannot be used"),
        ("offset + 1", "gives bigint"),
    ],
)
def test_a_rule_that_is_no_condition(spark: SparkSession, check: str, told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        quality(frame_of(spark, []), [Rule("bad", check)])
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
