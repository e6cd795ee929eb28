"""Regular expressions that clients send. RE2 matches them, as in Kafka: in time that grows with the name's length only.

A pattern's program and memory are bounded, so one match takes at most a few milliseconds, whatever the pattern is.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import lru_cache
from typing import Final

import re2

from goqueue.base.errors import Invalid
from goqueue.base.limits import PATTERN_BYTES_MAX, PATTERN_CHARS_MAX, PATTERN_STEPS_MAX, PATTERNS_READY_MAX
from goqueue.base.tenants import SEPARATOR


class InvalidPattern(Invalid):
    """The pattern is no regular expression, or could take too long."""


class TopicPattern:
    """One regular expression, and which topics it was last found to match. It has to match a whole name.

    That of a tenant is matched with names of that tenant alone, as its people call them.
    """

    __slots__ = ("_begin", "_compiled", "_found", "_topics")

    def __init__(self, text: str) -> None:
        self._begin, own = _tenant_in(text)
        self._compiled = _compiled(own)
        self._topics: Mapping[str, int] = {}
        self._found: frozenset[str] = frozenset()

    def matches(self, name: str) -> bool:
        return name.startswith(self._begin) and self._compiled.fullmatch(name[len(self._begin) :]) is not None

    def among(self, topics: Mapping[str, int]) -> frozenset[str]:
        """The topics that match. Only those are looked at that were not there the last time."""
        for _ in self.look(topics):
            pass
        return self._found

    def look(self, topics: Mapping[str, int]) -> Generator[None, None, None]:
        """The work of `among`, name by name, for a caller that pauses in between. `topics` must not change."""
        if topics is self._topics:
            return
        found = self._found.intersection(topics)
        fresh = []
        for name in topics:
            if name not in self._topics:
                if self.matches(name):
                    fresh.append(name)
                yield
        self._topics, self._found = topics, found.union(fresh)


@lru_cache(maxsize=PATTERNS_READY_MAX)
def compile_pattern(text: str) -> TopicPattern:
    """The pattern, or `InvalidPattern`."""
    return TopicPattern(text)


def tenant_pattern(tenant: str, text: str) -> str:
    """A pattern of a tenant, in a form that no other has: no name begins with a separator."""
    return f"{SEPARATOR}{tenant}{SEPARATOR}{text}"


def _tenant_in(text: str) -> tuple[str, str]:
    """How all names begin that it can match, and the expression for the rest."""
    if not text.startswith(SEPARATOR):
        return "", text
    tenant, _, own = text[len(SEPARATOR) :].partition(SEPARATOR)
    return tenant + SEPARATOR, own


def _compiled(text: str) -> re2._Regexp:
    if len(text) > PATTERN_CHARS_MAX:
        raise InvalidPattern(f"A pattern has at most {PATTERN_CHARS_MAX} characters.", field="pattern")
    try:
        compiled = re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise InvalidPattern(f"{text!r} is not a pattern: {_message(error)}.", field="pattern") from None
    if compiled.programsize > PATTERN_STEPS_MAX:
        raise InvalidPattern("The pattern could take too long; repeat less in it.", field="pattern")
    return compiled


def _message(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = PATTERN_BYTES_MAX
    options.never_capture = True  # groups cost time, and nobody asks for them
    options.log_errors = False
    return options


_OPTIONS: Final = _options()
