"""How much there is to decode in JSON: counted before it is decoded, in stretches, so that others get their turn.

Decoding takes the loop for as long as there are elements, and each takes far more memory than its text. Commas outside
of strings are the elements, within a factor of two.
"""

from __future__ import annotations

import asyncio
from typing import Final

from goqueue.base.errors import BodyTooLarge
from goqueue.base.limits import JSON_ELEMENTS_MAX, KIB, MIB

CHECKED_BYTES_MIN: Final = 256 * KIB  # what is shorter has few elements
_COUNT_BYTES: Final = 1 * MIB
_STRETCH_BYTES: Final = 256 * KIB


async def check_elements(body: bytes) -> None:
    """Raises `BodyTooLarge`. Text that is not JSON passes, or does not; the decoder refuses it anyhow."""
    if await _commas(body) > JSON_ELEMENTS_MAX and await _elements(body) > JSON_ELEMENTS_MAX:
        raise BodyTooLarge(f"The body has more than {JSON_ELEMENTS_MAX} values; send less at once.")


async def _commas(body: bytes) -> int:
    found = 0
    for at in range(0, len(body), _COUNT_BYTES):
        found += body.count(b",", at, at + _COUNT_BYTES)
        if found > JSON_ELEMENTS_MAX:
            break
        await asyncio.sleep(0)
    return found


async def _elements(body: bytes) -> int:
    found, in_string, at = 0, False, 0
    while at < len(body) and found <= JSON_ELEMENTS_MAX:
        stretch = body[at : at + _STRETCH_BYTES]
        at += len(stretch)
        if stretch.endswith(b"\\") and at < len(body):
            stretch, at = _to_escapes_end(body, stretch, at)
        parts = stretch.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        found += sum(part.count(b",") for part in parts[in_string::2])
        in_string ^= len(parts) % 2 == 0
        await asyncio.sleep(0)
    return found


def _to_escapes_end(body: bytes, stretch: bytes, at: int) -> tuple[bytes, int]:
    """A stretch never ends within an escape."""
    slashes = len(stretch) - len(stretch.rstrip(b"\\"))
    return (stretch + body[at : at + 1], at + 1) if slashes % 2 else (stretch, at)
