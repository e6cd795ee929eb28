"""What doors ask the verbs for, and what they get back, can be sent to another process too."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from goqueue.base.encoding import decode, encode
from goqueue.core.groups import replies, requests
from goqueue.service import consume, groups, reset, scheduling, staged, txn_publish
from tests.base.test_encoding import fields_of, structs_of, values

INNER = {"GroupStep"}  # what a coordinator hands its host
MODULES = (requests, replies, consume, groups, reset, scheduling, staged, txn_publish)
STRUCTS = [one for module in MODULES for one in structs_of(module) if not one.__name__.startswith("_")]


@pytest.mark.parametrize("kind", [one for one in STRUCTS if one.__name__ not in INNER], ids=lambda kind: kind.__name__)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_a_request_or_an_answer_is_the_same_after_it_was_encoded(kind: type[msgspec.Struct], data: DataObject) -> None:
    value = data.draw(values(kind))
    again = decode(encode(value), kind)
    assert type(again) is kind and fields_of(again) == fields_of(value)
