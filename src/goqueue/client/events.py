"""Server-sent events, read from bytes as they come. No I/O.

Lines end with LF, CR LF or CR, wherever the bytes are cut. An event ends with an empty line; one without data is
not handed out, but its id counts. What is cut off by the end of the stream never was.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from goqueue.base.limits import MIB
from goqueue.client.errors import bad_reply

# The largest message in base64, with its key and headers, fits.
EVENT_BYTES_MAX: Final = 768 * MIB
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class ServerEvent(msgspec.Struct, frozen=True):
    """One event; `id` is the last one seen in the stream so far."""

    kind: str
    data: bytes
    id: str | None


class EventParser:
    """Fed with bytes, returns events. `last_id` and `retry_ms` hold what the stream said last."""

    def __init__(self, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self.last_id: str | None = None
        self.retry_ms: int | None = None
        self._bytes_max = bytes_max
        self._size = 0  # of the event so far, unfinished line included
        self._line: list[bytes] = []
        self._after_cr = False
        self._is_first_line = True
        self._clear()

    def _clear(self) -> None:
        self._kind = "message"
        self._data: list[bytes] = []
        self._id: str | None = self.last_id
        self._size = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that these bytes complete; `bad-reply` if one grows beyond the limit."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        events: list[ServerEvent] = []
        for piece in ended:
            self._grow(piece)
            if event := self._take_line(b"".join(self._line)):
                events.append(event)
            self._line.clear()
        self._grow(rest)
        return events

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._bytes_max:
            raise bad_reply(f"an event is larger than {self._bytes_max} bytes")
        self._line.append(piece)

    def _take_line(self, line: bytes) -> ServerEvent | None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        self._take_field(name, value.removeprefix(b" "))
        return None

    def _take_field(self, name: bytes, value: bytes) -> None:
        # A comment has an empty name; it and names nobody knows are passed over.
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._kind = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit():
            self.retry_ms = int(value)

    def _dispatch(self) -> ServerEvent | None:
        self.last_id = self._id
        event = ServerEvent(self._kind or "message", b"\n".join(self._data), self._id) if self._data else None
        self._clear()
        return event
