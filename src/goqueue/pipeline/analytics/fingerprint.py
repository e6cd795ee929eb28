"""What errors have in common: the text without what differs from case to case, and a short hash of that.

"Order 8841 of user-77 timed out after 30.5 s"  ->  "Order <n> of user-<n> timed out after <n> s"
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

from goqueue.base.fingerprints import CHARS_MAX, DIGITS, RULES


def template(text: Column) -> Column:
    """The text with numbers, ids, times and addresses replaced by what they are. Nothing is the empty text."""
    found = f.substring(f.coalesce(text, f.lit("")), 1, CHARS_MAX)
    for pattern, instead in RULES:
        found = f.regexp_replace(found, pattern, instead)
    return f.trim(found)


def fingerprint(text: Column) -> Column:
    """16 hexadecimal digits, the same for texts of the same template."""
    return f.substring(f.sha2(template(text), 256), 1, DIGITS)
