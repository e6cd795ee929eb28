"""The query protocol's forms."""

from __future__ import annotations

import contextlib
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.edge.sqs.errors import SqsError
from goqueue.edge.sqs.forms import parse_form


def test_a_flat_form_is_itself() -> None:
    form = {"Action": "SendMessage", "MessageBody": "a & b", "Version": "2012-11-05"}
    assert parse_form(urlencode(form)) == form


def test_lists_are_numbered_and_sorted_by_number() -> None:
    form = {f"AttributeName.{number}": str(number) for number in (10, 2, 1)}
    assert parse_form(urlencode(form)) == {"AttributeNames": ["1", "2", "10"]}


def test_a_lone_element_needs_no_number_and_an_empty_list_has_none() -> None:
    assert parse_form("AttributeName=All") == {"AttributeNames": ["All"]}
    assert parse_form("AttributeName=&Entries=") == {"AttributeNames": [], "Entries": []}


def test_entries_hold_maps_of_structures() -> None:
    prefix = "SendMessageBatchRequestEntry.1"
    form = {
        f"{prefix}.Id": "a",
        f"{prefix}.MessageBody": "b",
        f"{prefix}.MessageAttribute.1.Name": "n",
        f"{prefix}.MessageAttribute.1.Value.DataType": "Number",
        f"{prefix}.MessageAttribute.1.Value.StringValue": "5",
    }
    entry = {"Id": "a", "MessageBody": "b", "MessageAttributes": {"n": {"DataType": "Number", "StringValue": "5"}}}
    assert parse_form(urlencode(form)) == {"Entries": [entry]}


def test_maps_have_names_or_keys() -> None:
    form = {"Attribute.1.Name": "DelaySeconds", "Attribute.1.Value": "5", "Tag.1.Key": "k", "Tag.1.Value": "v"}
    parsed = parse_form(urlencode(form))
    assert parsed["Attributes"] == {"DelaySeconds": "5"}
    assert parsed["Tags"] == parsed["tags"] == {"k": "v"}


@pytest.mark.parametrize("text", ["a=1&a.b=2", "a.b=1&a=2", "a.1.2.3.4.5.6.7.8=x", "x=%ff"])
def test_contradictions_are_refused(text: str) -> None:
    with pytest.raises(SqsError):
        parse_form(text)


WORDS = ["Attribute", "Name", "Value", "1", "2", "Entries", "MessageAttribute", "Tag", "Key", "", "x", "AttributeName"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(st.sampled_from(WORDS), max_size=9), st.text(max_size=5)), max_size=20))
def test_any_form_is_read_or_refused(pairs: list[tuple[list[str], str]]) -> None:
    with contextlib.suppress(SqsError):
        parse_form(urlencode([(".".join(path), value) for path, value in pairs]))


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(SqsError):
        parse_form(text)
