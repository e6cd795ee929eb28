"""Error words: their codes are a promise to users."""

from __future__ import annotations

import re

import goqueue.base.startup_errors  # noqa: F401 - so that its words are known
from goqueue.base import errors
from goqueue.base.errors import GoQueueError, leaves

# Codes users may rely on. New ones are added here; none is ever changed or taken away.
PROMISED = {
    "address-unusable",
    "body-too-large",
    "corrupt-batch",
    "damaged-range",
    "data-dir-in-use",
    "data-dir-unusable",
    "data-too-new",
    "disk-full",
    "foreign-origin",
    "invalid-config",
    "invalid-field",
    "invalid-json",
    "invalid-name",
    "key-required",
    "message-too-large",
    "offset-out-of-range",
    "overloaded",
    "settings-invalid",
    "shutting-down",
    "storage-failed",
    "topic-exists",
    "unknown-partition",
    "unknown-route",
    "unknown-topic",
}


def all_words() -> list[type[GoQueueError]]:
    return [word for word in vars(errors).values() if isinstance(word, type) and issubclass(word, GoQueueError)]


def test_promised_codes_are_still_there() -> None:
    assert {leaf.code for leaf in leaves()} >= PROMISED


def test_codes_are_unique_and_plain() -> None:
    codes = [word.code for word in all_words()]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


def test_every_word_belongs_to_one_family_and_says_what_it_means() -> None:
    families = [word for word in all_words() if word.__bases__ == (GoQueueError,)]
    for word in all_words():
        assert word.__doc__
        assert word is GoQueueError or sum(issubclass(word, family) for family in families) == 1


def test_leaves_come_sorted_and_are_leaves() -> None:
    found = leaves()
    assert [leaf.code for leaf in found] == sorted(leaf.code for leaf in found)
    assert all(not leaf.__subclasses__() for leaf in found)


def test_an_error_carries_message_field_and_detail() -> None:
    error = errors.OffsetOutOfRange("Too far.", field="offset", start_offset=3)
    assert (str(error), error.message, error.field, error.detail) == (
        "Too far.",
        "Too far.",
        "offset",
        {"start_offset": 3},
    )
    assert error.code == "offset-out-of-range"
