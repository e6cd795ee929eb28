"""Names users choose: what is legal, and that no name can leave the data directory."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.errors import InvalidName
from goqueue.base.names import check_name


@pytest.mark.parametrize("name", ["a", "Orders", "orders.eu-1_x", "...", "-", "_", "0", "a" * 249, ".hidden"])
def test_a_legal_name_comes_back_unchanged(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a" * 250,
        "a/b",
        "../a",
        "a\\b",
        "a b",
        "a\n",
        "\na",
        "a\x00",
        "ä",
        "٣",
        "a:b",
        "~",
        "a%2f",
        "a,b",
    ],
)
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_name(name)


@given(st.text(max_size=260))
def test_only_names_of_the_legal_alphabet_pass(name: str) -> None:
    legal = re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is not None and name not in (".", "..")
    try:
        assert check_name(name) == name and legal
    except InvalidName:
        assert not legal


def test_the_error_names_kind_and_field() -> None:
    with pytest.raises(InvalidName, match="group name is empty") as caught:
        check_name("", kind="group", field="group_id")
    assert caught.value.field == "group_id"
