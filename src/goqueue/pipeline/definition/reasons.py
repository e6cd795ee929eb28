"""Why a query of Spark ended, in one line: what was raised inside, without Spark's words around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from goqueue.pipeline.lake.errors import LakeError

_CHARS_MAX: Final = 1000
_CAUSES_MAX: Final = 20
_TRACE: Final = "Traceback (most recent call last)"
_FULL: Final = re.compile("No space left on device|Disk quota exceeded")  # where Spark itself wrote, and not the lake
_TO_DO: Final = "Make room for its checkpoint, and where Spark keeps temporary files"
_RAISED: Final = re.compile(r"^(?!SQLSTATE)[A-Za-z_][\w.]*: \S.*")  # the end of a traceback of Python


def causes(error: BaseException) -> list[str]:
    """What it says, and what its causes say, the outermost first."""
    return [str(one) for one in _chain(error)]


def _chain(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if found is None:
            return
        yield found
        found = getattr(found, "_cause", None)  # as Spark's own errors have it


def reason(texts: Sequence[str]) -> str:
    """Ours, if one of our errors is in it; else the first line, and the innermost where that says more."""
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if LakeError.__name__ in line or "goqueue." in line]
    if ours:
        return _one_line(ours[-1])
    if not lines:
        return "it ended without a word"
    told = [lines[0].rstrip(": ").removesuffix(_TRACE).rstrip(": "), _innermost(texts)]
    found = ": ".join(dict.fromkeys(one for one in told if one)) if told[1] not in told[0] else told[0]
    return _one_line(f"{found}. {_TO_DO}" if _FULL.search(found) else found)


def _innermost(texts: Sequence[str]) -> str:
    lines = next(([line for line in text.splitlines() if line.strip()] for text in reversed(texts) if text.strip()), [])
    if any(_TRACE in line for line in lines):
        return next((line for line in reversed(lines) if _RAISED.match(line)), "")
    return lines[0].strip() if lines else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_CHARS_MAX]
