"""What errors have in common: the text without what differs from case to case, and a short hash of that.

"Order 8841 of user-77 timed out after 30.5 s"  ->  "Order <n> of user-<n> timed out after <n> s"
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

CHARS_MAX: Final = 2_000
DIGITS: Final = 16
# In this order: what looks special goes before what is left of it looks like a number. Java's and Python's expressions
# mean the same here.
RULES: Final = (
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<uuid>"),
    (
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?",
        "<time>",
    ),
    (r"(?<![0-9.])[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]{1,5})?(?![0-9.])", "<address>"),
    (r"0[xX][0-9a-fA-F]+", "<hex>"),
    # Letters and digits in one word of some length: somebody's id.
    (r"(?<![0-9A-Za-z])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[0-9A-Za-z]{6,}(?![0-9A-Za-z])", "<id>"),
    (r"[0-9]+([.,][0-9]+)*", "<n>"),
    (r"\s+", " "),
)
_COMPILED: Final = tuple((re.compile(pattern, re.ASCII), instead) for pattern, instead in RULES)


def template(text: str) -> str:
    """The text with numbers, ids, times and addresses replaced by what they are."""
    found = text[:CHARS_MAX]
    for pattern, instead in _COMPILED:
        found = pattern.sub(instead, found)
    return found.strip(" ")


def fingerprint(text: str) -> str:
    """16 hexadecimal digits, the same for texts of the same template."""
    return hashlib.sha256(template(text).encode()).hexdigest()[:DIGITS]
