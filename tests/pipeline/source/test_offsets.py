from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.errors import BadOption
from goqueue.pipeline.source.offsets import INITIAL, QueryMark, mark_of, parse_places, parse_positions, positions_json

_POSITIONS = st.dictionaries(
    st.builds(Place, st.sampled_from(["a", "b", "orders"]), st.integers(0, 200)), st.integers(0, 1 << 62), max_size=12
)


@given(_POSITIONS, st.none() | _POSITIONS, _POSITIONS)
def test_a_mark_survives_sparks_log(
    to: dict[Place, int], begun: dict[Place, int] | None, lost: dict[Place, int]
) -> None:
    mark = QueryMark(to, {place.topic: "00ff" for place in to}, begun, lost)
    assert mark_of(json.loads(json.dumps(mark.as_json()))) == mark


@given(_POSITIONS, st.randoms(use_true_random=False))
def test_trap_2_offsets_are_compared_as_text_so_their_keys_are_always_sorted(
    to: dict[Place, int], chance: random.Random
) -> None:
    shuffled = list(to.items())
    chance.shuffle(shuffled)
    one, other = QueryMark(to, {"b": "1", "a": "2"}), QueryMark(dict(shuffled), {"a": "2", "b": "1"})
    assert json.dumps(one.as_json()) == json.dumps(other.as_json())


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    assert list(positions_json({Place("a", number): 0 for number in (10, 2, 1)})["a"]) == ["1", "2", "10"]


def test_the_beginning_of_a_query_says_nothing() -> None:
    assert mark_of(json.loads(json.dumps(INITIAL))) is None


def test_a_checkpoint_of_another_source_is_refused() -> None:
    with pytest.raises(BadOption, match="checkpointLocation of its own"):
        mark_of({"orders": {"0": 5}})


def test_offsets_as_users_write_them() -> None:
    text = '{"topicA": {"0": 23, "1": -1}, "topicB": {"0": -2}}'
    assert parse_positions(text, "startingOffsets") == {
        Place("topicA", 0): 23,
        Place("topicA", 1): -1,
        Place("topicB", 0): -2,
    }


def test_partitions_as_users_write_them() -> None:
    assert parse_places('{"b": [1, 0], "a": [2]}', "assign") == (Place("a", 2), Place("b", 0), Place("b", 1))
