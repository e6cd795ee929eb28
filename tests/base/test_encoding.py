"""Every command and every reply can be sent to another process, and is the same there."""

from __future__ import annotations

import enum
import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

import goqueue.base.startup_errors  # noqa: F401 - so that its words are known
from goqueue.base import commands, leases
from goqueue.base.commands import OnceResult, PublishBatch, PublishedOnce, PublishResult, ScheduledAt, StoredAt
from goqueue.base.encoding import decode, decode_once_results, decode_results, encode
from goqueue.base.errors import DamagedRange, GoQueueError, StaleReceipt, UnknownTopic, leaves
from goqueue.base.ids import TopicPartition


def structs_of(module: types.ModuleType) -> list[type[msgspec.Struct]]:
    found = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return [one for one in found if one.__module__ == module.__name__]


WORDS = leaves()
STRUCTS = [*structs_of(commands), *structs_of(leases)]
PLAIN: dict[object, SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**64 - 1),
    str: st.text(),
    bytes: st.binary(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    type(None): st.none(),
}


@st.composite
def errors(draw: st.DrawFn) -> GoQueueError:
    word = draw(st.sampled_from(WORDS))
    detail: dict[str, object] = draw(
        st.dictionaries(st.text(), st.integers(0, 2**63) | st.text() | st.none(), max_size=3)
    )
    error = word(draw(st.text()), field=draw(st.none() | st.text()))
    error.detail = detail
    return error


def values(kind: Any) -> SearchStrategy[Any]:
    """Values of a field's type; `TypeError` for one that is not plain data."""
    origin, args = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if kind is GoQueueError:
        return errors()
    if origin in (Union, types.UnionType):
        return st.one_of([values(one) for one in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Sequence, list):
        return st.lists(values(args[0]), max_size=3)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, args))
    if origin is dict:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=3)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = {one.name: values(one.type) for one in msgspec.structs.fields(kind)}
        return st.builds(kind, **fields)
    raise TypeError(f"{kind} is not plain data")


def parts(error: object) -> object:
    """Errors are equal if they say the same."""
    if isinstance(error, GoQueueError):
        return type(error), error.message, error.field, error.detail
    if isinstance(error, list | tuple):
        return [parts(one) for one in error]
    if isinstance(error, msgspec.Struct):
        return type(error), fields_of(error)
    return error


def fields_of(value: Any) -> dict[str, object]:
    return {name: parts(one) for name, one in msgspec.structs.asdict(value).items()}


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_a_command_or_reply_is_the_same_after_it_was_encoded(kind: type[msgspec.Struct], data: DataObject) -> None:
    value = data.draw(values(kind))
    again = decode(encode(value), kind)
    assert type(again) is kind and fields_of(again) == fields_of(value)


@settings(max_examples=25)
@given(st.lists(values(StoredAt | ScheduledAt | GoQueueError)))
def test_results_of_a_publish_are_the_same_after_they_were_encoded(results: list[PublishResult]) -> None:
    assert list(map(parts, decode_results(encode(results)))) == list(map(parts, results))


@settings(max_examples=25)
@given(st.lists(values(PublishedOnce | GoQueueError)))
def test_results_of_a_deduplicated_publish_are_the_same_after_they_were_encoded(results: list[OnceResult]) -> None:
    assert list(map(parts, decode_once_results(encode(results)))) == list(map(parts, results))


@settings(max_examples=25)
@given(st.lists(values(leases.Outcome)))
def test_outcomes_of_receipts_are_the_same_after_they_were_encoded(outcomes: list[leases.Outcome]) -> None:
    again = decode(encode(outcomes), list[leases.Outcome])
    assert list(map(parts, again)) == list(map(parts, outcomes))


def test_an_error_is_caught_by_its_family_after_it_was_encoded() -> None:
    hole = DamagedRange("A hole.", first_offset=3, last_offset=5, next_offset=6)
    (again, stale, none) = decode(encode([hole, StaleReceipt("Over."), None]), list[leases.Outcome])
    assert isinstance(again, DamagedRange) and again.detail["next_offset"] == 6
    assert isinstance(stale, StaleReceipt) and none is None


def test_an_error_word_of_a_later_version_keeps_its_text() -> None:
    sent = msgspec.msgpack.encode(
        [{"type": "error", "code": "from-the-future", "message": "Later.", "field": None, "detail": {"n": 1}}]
    )
    (again,) = decode(sent, list[leases.Outcome])
    assert again is not None and type(again) is GoQueueError
    assert (again.message, again.detail) == ("Later.", {"n": 1})


def test_a_view_of_a_batch_is_sent_as_its_bytes() -> None:
    command = PublishBatch(TopicPartition("t", 0), memoryview(b"batch"))
    assert decode(encode(command), PublishBatch).batch == b"batch"


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        encode([lambda: None])


def test_an_unknown_topic_stays_one() -> None:
    (again,) = decode_results(encode([UnknownTopic("No.", field="topic")]))
    assert isinstance(again, UnknownTopic) and again.field == "topic"
