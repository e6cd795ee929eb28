"""The words that a type allows at a place."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

import msgspec

from goqueue.base.choices import choices_at, listed


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct, rename="camel"):
    some_mode: Literal["a", "b"] | None = None
    colours: list[Colour] = []


class Outer(msgspec.Struct):
    inner: list[Inner]
    by_name: dict[str, Inner]
    noted: Annotated[Literal["x", "y"], msgspec.Meta(description="noted")] = "x"
    free: str = ""


def test_the_words_at_a_path_are_found_through_lists_dicts_and_options() -> None:
    assert choices_at(Outer, "inner[0].someMode") == ["a", "b"]
    assert choices_at(Outer, "by_name[...].someMode") == ["a", "b"]
    assert choices_at(Outer, "inner[...].colours[3]") == ["red", "blue"]
    assert choices_at(Outer, "noted") == ["x", "y"]
    assert choices_at(Literal["on", "off"], "") == ["off", "on"]


def test_a_place_that_takes_anything_or_is_not_there_has_none() -> None:
    assert choices_at(Outer, "free") == []
    assert choices_at(Outer, "nowhere.at[0].all") == []
    assert choices_at(Outer, "") == []


def test_words_are_listed_for_people() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a or b", "a, b or c"]
