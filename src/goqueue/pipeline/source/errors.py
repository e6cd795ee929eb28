"""What can go wrong when a read is asked for or planned. Every one passes between processes."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from goqueue.pipeline.link.errors import PipelineError


class BadOption(PipelineError):
    """An option that cannot be meant like this."""


class DataLost(PipelineError):
    """What the query still had to read is there no more, and `failOnDataLoss` says to stop then."""


class NoSuchTime(PipelineError):
    """A partition has no message as young as the time that was asked for."""


class Untyped(PipelineError):
    """A registered schema that has no typed columns."""


class Misfit(PipelineError):
    """A value that is not what its schema says."""


def unknown(kind: str, given: str, known: Iterable[str]) -> BadOption:
    """The error for a name nobody knows: it names the nearest one."""
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(given.lower(), by_lower, n=1, cutoff=0.5)
    hint = f"Did you mean {by_lower[near[0]]!r}?" if near else f"Known are {', '.join(sorted(by_lower.values()))}."
    return BadOption(f"There is no {kind} {given!r}. {hint}")
