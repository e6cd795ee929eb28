"""Spark's expressions against the same thing said in plain Python, on texts with ids, numbers and times from a seed."""

from __future__ import annotations

import hashlib
import random
import uuid
from typing import TYPE_CHECKING

import pytest

from goqueue.pipeline.analytics.fingerprint import fingerprint, template

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

KNOWN = [
    ("Order 8841 of user-77 timed out after 30.5 s", "Order <n> of user-<n> timed out after <n> s"),
    ("row 1b4e28ba-2fa1-11d2-883f-0016d3cca427 is gone", "row <uuid> is gone"),
    ("no answer from 10.0.0.7:5432 since 2026-01-31T12:00:00.123Z", "no answer from <address> since <time>"),
    ("bad pointer 0x7ffe12 in ord_9f3a2b7c", "bad pointer <hex> in ord_<id>"),
    ("  KeyError:\n\t'amount'  ", "KeyError: 'amount'"),
    ("HTTP 503", "HTTP <n>"),
    ("1,234,567 rows", "<n> rows"),
    ("grün 7 ⚠", "grün <n> ⚠"),
    ("", ""),
    (None, ""),
]


def test_templates_of_known_texts(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(number, text) for number, (text, _) in enumerate(KNOWN)], "number int, text string")
    found = rows.select(
        "number", template(rows.text).alias("template"), fingerprint(rows.text).alias("print")
    ).collect()
    assert {row.number: row.template for row in found} == {number: one for number, (_, one) in enumerate(KNOWN)}
    hashes = {number: hashlib.sha256(one.encode()).hexdigest()[:16] for number, (_, one) in enumerate(KNOWN)}
    assert {row.number: row.print for row in found} == hashes


def test_errors_that_differ_in_ids_alone_have_one_fingerprint(spark: SparkSession) -> None:
    chance = random.Random(7)
    kinds = [
        lambda: f"card of user-{chance.randrange(10**6)} was refused: {uuid.UUID(int=chance.getrandbits(128))}",
        lambda: f"stock of item {chance.randrange(10**6)} is {chance.random() * 100:.2f} below zero",
        lambda: f"upstream {chance.randrange(256)}.0.{chance.randrange(256)}.9 gave {chance.choice((500, 502, 503))}",
        lambda: f"no such key 0x{chance.getrandbits(64):x} at 2026-0{chance.randrange(1, 10)}-15 08:30:00",
    ]
    texts = [(kind, kinds[kind]()) for kind in (chance.randrange(len(kinds)) for _ in range(400))]
    found = spark.createDataFrame(texts, "kind int, text string").select("kind", fingerprint_of("text")).distinct()
    rows = found.collect()
    assert sorted(row.kind for row in rows) == [0, 1, 2, 3]
    assert len({row.fingerprint for row in rows}) == len(kinds)


def fingerprint_of(column: str) -> Column:
    from pyspark.sql import functions as f

    return fingerprint(f.col(column)).alias("fingerprint")
