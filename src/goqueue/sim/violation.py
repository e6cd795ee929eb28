"""What a checker of a simulated cluster raises."""

from __future__ import annotations


class Violation(Exception):
    """Something that was promised does not hold."""
