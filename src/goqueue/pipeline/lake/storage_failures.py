"""What storage says when it takes no files: in one line, and what to do about it."""

from __future__ import annotations

import errno
import re
from typing import Final

_DRAWN: Final = re.compile(r"\x1b\[\d*m|↳|│")  # delta-rs tells causes as a coloured tree
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# Object storage is asked again only after failures of its own and of the network.
_PASSING: Final = re.compile(
    r"after \d+ retries|\b(?:429|5\d\d) [A-Z]|"
    r"AWS Error (?:NETWORK_CONNECTION|SLOW_DOWN|THROTTLING|INTERNAL_FAILURE|SERVICE_UNAVAILABLE|REQUEST_TIMEOUT)"
)


def one_line(error: object) -> str:
    return " ".join(_DRAWN.sub(" ", str(error)).split()).rstrip(".")


def advice(error: object, otherwise: str) -> str:
    """`otherwise` is for what does not pass by itself."""
    if getattr(error, "errno", None) in _FULL:
        return "Make room there, and run it again."
    if _PASSING.search(one_line(error)):
        return "The storage is away or has too much to do: run it again later."
    return otherwise
