"""When something last happened on a connection, and what has taken too long."""

from __future__ import annotations


class Activity:
    """Times are seconds of the monotonic clock."""

    __slots__ = ("_frame_since", "_moved", "_unread", "asked", "is_stalled")

    def __init__(self, now: float) -> None:
        self._moved = now  # bytes came or went
        self.asked = -1.0  # a request came; below 0 if none did
        self._frame_since = -1.0  # since when a frame is not whole; below 0 if none is open
        self._unread = 0
        self.is_stalled = False  # answers wait, and since the last look the client took nothing

    def received(self, now: float, has_frames: bool, is_open: bool) -> None:
        """Bytes came: they ended frames or not, and left one open or not."""
        self._moved = now
        if has_frames:
            self.asked = now
        if not is_open:
            self._frame_since = -1.0
        elif has_frames or self._frame_since < 0:
            self._frame_since = now

    def overdue(
        self, now: float, unread_bytes: int, is_waiting: bool, is_read: bool, frame_s: float, idle_s: float
    ) -> str:
        """Why the connection has to go, or nothing. `is_read` is whether the node reads from it now."""
        if not is_read and self._frame_since >= 0:
            self._frame_since = now  # it is the node that does not take the rest
        if 0 <= self._frame_since < now - frame_s:
            return "frame"
        if unread_bytes < self._unread or (is_waiting and not unread_bytes):
            self._moved = now
        self.is_stalled = 0 < self._unread <= unread_bytes
        self._unread = unread_bytes
        return "idle" if self._moved < now - idle_s else ""
