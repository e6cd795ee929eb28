"""Expressions over messages: what they mean, what they refuse, and that nothing in them runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.where import BadExpression, json_or_text, parse_where

NAMES: dict[str, Any] = {
    "value": {"total": 12, "who": {"name": "Ann"}, "items": [{"sku": "a-1"}, "b"], "paid": True, "none": None},
    "key": "user-1",
    "headers": {"source": "shop", "content-type": "json"},
    "timestamp": 1_700_000_000_000,
    "partition": 3,
    "offset": 17,
    "priority": "high",
    "topic": "orders",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("value.total > 10", True),
        ("value.total > 12", False),
        ("value.total >= 12 and value.total <= 12", True),
        ("value.total * 2 + 1 == 25", True),
        ("-value.total < 0", True),
        ("value.total % 5 == 2", True),
        ("value.total / 0 == 1", False),
        ("value.who.name == 'Ann'", True),
        ('lower(value.who.name) == "ann"', True),
        ("value.items[0].sku startswith 'a-'", True),
        ("value.items[0].sku endswith '-1'", True),
        ("value.items contains 'b'", True),
        ("value.items[9].sku == null", True),
        ("value.who contains 'name'", True),
        ("len(value.items) == 2", True),
        ("exists(value.none)", False),
        ("exists(value.total) and not exists(value.nothing.at.all)", True),
        ("value.paid", True),
        ("not not value.paid", True),
        ("value.paid == true", True),
        ("headers.source == 'shop' and headers['content-type'] == 'json'", True),
        ("headers.content-type == 'json'", True),
        ("key matches '^user-[0-9]+$'", True),
        ("key matches 'z'", False),
        ("value.total matches '1'", False),
        ("value.total > 'text'", False),
        ("value.who > 1", False),
        ("value.missing > 1", False),
        ("value.total != 'text'", True),
        ("value.who contains value.items", False),
        ("partition == 3 and offset == 17 and topic == 'orders' and priority == 'high'", True),
        ("timestamp > 1.6e12", True),
        ("(value.total > 100 or key == 'user-1') and partition < 4", True),
        (r"key == 'us\er-1'", True),
    ],
)
def test_what_expressions_mean(text: str, holds: bool) -> None:
    assert bool(parse_where(text)(NAMES)) is holds


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "something is missing at the end"),
        ("value.total >", "something is missing at the end"),
        ("value.total > 10 10", "'10' is not expected at 18"),
        ("__import__('os').system('x')", "'__import__' at 1 is not known"),
        ("value.__class__()", "'(' is not expected at 16"),
        ("eval('1')", "'eval' at 1 is not known"),
        ("total > 10", "a message has value, key, headers"),
        ("value[total]", "a name is missing at 7"),
        ("value.", "a name is missing at 7"),
        ("(value", "')' is missing at 7"),
        ("value = 3", "'= 3' at 7 cannot be read"),
        ("key matches '('", "the pattern at 13 is none"),
        ("key matches key", "a pattern in quotes is missing"),
        ("1" * 31, "more than 30 digits"),
        ("(" * 41 + "1" + ")" * 41, "nested deeper than 40"),
        ("-" * 50 + "1", "nested deeper than 40"),
        ("value" + " or value" * 300, "more than 2,000 characters"),
    ],
)
def test_what_cannot_be_read_says_where(text: str, told: str) -> None:
    with pytest.raises(BadExpression) as error:
        parse_where(text)
    assert told in str(error.value)


@given(st.text(alphabet="value.key()[]'\"<>=!+-*/% and or not matches 019", max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with suppress(BadExpression):
        parse_where(text)(NAMES)


@given(st.binary(max_size=40))
def test_any_value_is_json_text_or_null(data: bytes) -> None:
    json_or_text(data)
    assert json_or_text(None) is None
