"""Values of record headers. Anybody can put any bytes there, so each kind of value has one reader, here.

What cannot be read is None, never an error: a message with a strange header is still a message.
"""

from __future__ import annotations

from typing import Final

_DIGITS_MAX: Final = 18  # fits 64 bits, and `int` never has to refuse it
_SHOWN_CHARS_MAX: Final = 100


def number_in(value: bytes | None) -> int | None:
    """A whole number from 0 on, in ASCII digits."""
    if value is None or not 0 < len(value) <= _DIGITS_MAX or not value.isdigit():
        return None
    return int(value)


def text_in(value: bytes | None) -> str:
    """Text, whatever the bytes are."""
    return "" if value is None else value.decode(errors="replace")


def shown(text: str) -> str:
    """A value as an error message shows it: in quotes, and short however long it is."""
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "...")
