"""Deduplication ids: each once in five minutes, within a bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.errors import Overloaded
from goqueue.core.deduplication_ids import WINDOW_MS, DeduplicationIds, Used, key_of


def used(sent_ms: int, message_id: str = "m") -> Used:
    return Used(sent_ms, message_id, 1)


def test_an_id_is_known_for_five_minutes() -> None:
    ids = DeduplicationIds(10)
    ids.add(b"k", used(1_000))
    assert ids.find(b"k", 1_000) == used(1_000)
    assert ids.find(b"k", 1_000 + WINDOW_MS - 1) == used(1_000)
    assert ids.find(b"k", 1_000 + WINDOW_MS) is None


def test_what_is_old_makes_room_for_what_is_new() -> None:
    ids = DeduplicationIds(2)
    ids.add(b"a", used(0))
    ids.add(b"b", used(1))
    with pytest.raises(Overloaded):
        ids.make_room(1, WINDOW_MS - 1)
    ids.make_room(1, WINDOW_MS)
    assert len(ids) == 1


def test_an_id_used_again_after_its_time_is_new() -> None:
    ids = DeduplicationIds(10)
    ids.add(b"a", used(0, "old"))
    ids.add(b"b", used(1))
    ids.add(b"a", used(WINDOW_MS, "new"))
    ids.make_room(1, WINDOW_MS + 1)
    assert ids.find(b"a", WINDOW_MS + 1) == used(WINDOW_MS, "new")


def test_keys_tell_queues_groups_and_ids_apart() -> None:
    keys = [key_of("t", None, "x"), key_of("u", None, "x"), key_of("t", "g", "x"), key_of("t", None, "gx")]
    assert len(set(keys)) == 4
    assert key_of("t", "g", "x") == keys[2]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, WINDOW_MS)), max_size=60))
def test_as_a_plain_list_of_uses_would_decide(steps: list[tuple[int, int]]) -> None:
    ids, plain, now = DeduplicationIds(1_000), dict[bytes, int](), 0
    for number, passed in steps:
        now += passed
        key = bytes([number])
        ids.make_room(1, now)
        is_known = key in plain and now - plain[key] < WINDOW_MS
        assert (ids.find(key, now) is not None) == is_known
        if not is_known:
            ids.add(key, used(now))
            plain[key] = now
    assert len(ids) <= 6
