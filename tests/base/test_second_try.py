"""Which failures of a run are tried again, and which never."""

from __future__ import annotations

import pytest

from tests.second_try import COLLECTION, MOST, reason, refused


def test_a_deadline_that_passed_is_tried_again() -> None:
    assert refused({"tests/a.py::test_b": "E   TimeoutError: the node did not answer within 30 s"}) is None


@pytest.mark.parametrize("why", ["> assert not lost", "E  AssertionError: value 7 stands twice", "E two have (0, 1)"])
def test_a_check_of_messages_is_never_tried_again(why: str) -> None:
    assert "tests/a.py::test_b" in str(refused({"tests/a.py::test_b": why}))


def test_many_failures_and_files_that_do_not_load_are_not_tried_again() -> None:
    assert refused({f"tests/a.py::test_{number}": "E" for number in range(MOST + 1)}) is not None
    assert refused({"tests/a.py": COLLECTION}) is not None


def test_the_source_around_a_failure_says_nothing() -> None:
    text = "    lost = sent - read\n>       assert not slow\nE       assert not True"
    assert reason(text) == ">       assert not slow\nE       assert not True"
