"""Paths into JSON."""

from __future__ import annotations

import pytest

from goqueue.base.errors import InvalidField
from goqueue.base.fingerprints import fingerprint, template
from goqueue.base.json_path import JsonPath

VALUE = {"order": {"id": 42, "items": [{"sku": "a"}, {"sku": "b.c"}], "open": True, "odd name": None}}


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        ("$", True),
        ("$.order.id", True),
        ("$.order.id=42", True),
        ("$.order.id=43", False),
        ("$.order.items[1].sku=b.c", True),
        ("$.order.items[2].sku", False),
        ("$.order.items[*].sku=a", True),
        ("$.order.items[*].sku=z", False),
        ("$.order.open=true", True),
        ('$.order["odd name"]=null', True),
        ("$.order.missing", False),
        ("$[0]", False),
    ],
)
def test_a_path_fits(path: str, fits: bool) -> None:
    assert JsonPath(path).matches(VALUE) is fits


@pytest.mark.parametrize("path", ["", "order", "$..a", "$[a]", "$.a[", "$" + ".a" * 33, "$." + "a" * 400])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidField):
        JsonPath(path)


def test_errors_that_differ_in_numbers_and_ids_have_one_fingerprint() -> None:
    first, second = "Order 8841 of user-77 timed out after 30.5 s", "Order 1 of user-2 timed out after 3 s"
    assert template(first) == "Order <n> of user-<n> timed out after <n> s" == template(second)
    assert fingerprint(first) == fingerprint(second) != fingerprint("card declined")
