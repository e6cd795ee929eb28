"""The few reads and writes that the generated code does not spell out in place.

Decoders check array counts before they make a list, and leave the check that a string or bytes field lies
inside the frame to the end: a slice never reaches past the frame, and `at` can only grow, so a message that
claimed too much never ends exactly at the frame's end.
"""

from __future__ import annotations

import struct

from goqueue.wire.errors import WireError

NO_UUID = bytes(16)

# What reading past the end of a buffer, or text that is not UTF-8, raises.
BAD_BYTES = (struct.error, IndexError, ValueError)

# Variable-length numbers of one byte.
SHORT = tuple(bytes((value,)) for value in range(128))
_UVARINT_MAX = 0xFFFFFFFF
TAGS_MAX = 32  # tagged fields of one struct; Kafka's own have at most four


def uvarint(value: int) -> bytes:
    if value < 128:
        return SHORT[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def long_uvarint(buf: memoryview, at: int, first: int) -> tuple[int, int]:
    """The value whose first byte, already read, says that more follow; and where it ends."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buf[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > _UVARINT_MAX:
                break
            return value, at
    raise WireError("a variable-length number is longer than 32 bits")


def skip_tags(buf: memoryview, at: int, count: int) -> int:
    """Where the tagged fields end; `count` is the first byte of their number, already read."""
    if count > 127:
        count, at = long_uvarint(buf, at, count)
    if count * 2 > len(buf) - at or count > TAGS_MAX:
        raise wrong_count(count)
    for _ in range(count):
        if buf[at] > 127:
            _, at = long_uvarint(buf, at + 1, buf[at])
        else:
            at += 1
        size = buf[at]
        at += 1
        if size > 127:
            size, at = long_uvarint(buf, at, size)
        at += size
    return at


def wrong_bytes(error: Exception) -> WireError:
    """The word for one of `BAD_BYTES`."""
    return WireError("text is not UTF-8" if isinstance(error, UnicodeDecodeError) else "the frame ends inside a field")


def wrong_end(at: int, end: int) -> WireError:
    if at > end:
        return WireError("the frame ends inside a field")
    return WireError(f"{end - at} bytes are left behind the message")


def wrong_count(count: int) -> WireError:
    if count < 0:
        return WireError("an array may not be null" if count == -1 else f"an array has the length {count}")
    return WireError(f"an array says it has {count} elements, more than the frame can hold")


def wrong_length(field: str, size: int) -> WireError:
    return WireError(f"{field} may not be null" if size == -1 else f"{field} has the length {size}")


def wrong_tag(tag: int) -> WireError:
    return WireError(f"the field with the tag {tag} is not as long as it says")


def wrong_version(name: str, version: int) -> WireError:
    return WireError(f"{name} has no version {version}")
