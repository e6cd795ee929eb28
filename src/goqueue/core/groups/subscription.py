"""Which topics a member reads: the ones it names and the ones its pattern matches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from goqueue.core.groups.errors import InvalidPattern
from goqueue.core.groups.records import ConsumerMember

PATTERN_CHARS_MAX: Final = 1_000
# A pattern is matched against every topic's name, so it must not be able to take for ever: no repeated groups, few
# open-ended repeats, no references back.
_OPEN_REPEATS_MAX: Final = 4
_SLOW: Final = re.compile(r"\)\s*[*+{]|\\[1-9]|\(\?P[=]")
_OPEN_REPEAT: Final = re.compile(r"(?<!\\)[*+{]")


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, repeats_max: int = _OPEN_REPEATS_MAX) -> re.Pattern[str]:
    """The pattern, or `InvalidPattern`. Like Kafka's, it has to match a whole name."""
    if len(pattern) > PATTERN_CHARS_MAX or _SLOW.search(pattern):
        raise InvalidPattern("The topic pattern could take too long; use a simpler one.", field="subscribed_regex")
    if len(_OPEN_REPEAT.findall(pattern)) > repeats_max:
        raise InvalidPattern(f"Use at most {repeats_max} repeats in a pattern.", field="subscribed_regex")
    try:
        return re.compile(pattern)
    except re.error as why:
        raise InvalidPattern(f"{pattern!r} is not a pattern: {why}.", field="subscribed_regex") from None


def topics_of(member: ConsumerMember, existing: Iterable[str]) -> frozenset[str]:
    """Every topic the member is subscribed to, existing or not."""
    if not member.regex:
        return frozenset(member.topics)
    matches = compile_pattern(member.regex).fullmatch
    return frozenset(member.topics).union(topic for topic in existing if matches(topic))
