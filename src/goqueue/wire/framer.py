"""Cuts a stream of bytes into frames. Each frame is a size of four bytes, and that many bytes."""

from __future__ import annotations

from goqueue.wire.errors import WireError

_PREFIX = 4


class Framer:
    """One connection's unfinished frame.

    A frame that lies whole in one chunk is a view of that chunk. Any other is collected in a buffer of its own,
    which grows with the bytes received: a size alone, however large, reserves nothing.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.buffered = 0  # bytes held for a frame that is not complete
        self._frame_bytes_max = frame_bytes_max
        self._prefix = bytearray()
        self._frame = bytearray()
        self._missing = 0  # bytes the open frame still lacks; 0 when none is open
        self._broken: WireError | None = None

    def allow(self, frame_bytes_max: int) -> None:
        """From the next frame on."""
        self._frame_bytes_max = frame_bytes_max

    def clear(self) -> None:
        """Forgets the open frame; nothing more is fed."""
        self._prefix, self._frame, self._missing, self.buffered = bytearray(), bytearray(), 0, 0

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames these bytes complete. After a size that is not allowed, this and every later call raises."""
        if self._broken is not None:
            raise self._broken
        frames: list[memoryview] = []
        view = memoryview(data)
        at = self._finish(view, frames) if self._missing or self._prefix else 0
        end = len(view)
        while end - at >= _PREFIX:
            size = self._size(view[at : at + _PREFIX])
            at += _PREFIX
            if size > end - at:
                self._frame += view[at:]
                self._missing = size - (end - at)
                self.buffered = len(self._frame)
                return frames
            frames.append(view[at : at + size])
            at += size
        self._prefix += view[at:]
        self.buffered = len(self._prefix) + len(self._frame)
        return frames

    def _finish(self, view: memoryview, frames: list[memoryview]) -> int:
        """Fill the open prefix or frame; where the next frame starts in the view."""
        at = 0
        if not self._missing:
            at = _PREFIX - len(self._prefix)
            self._prefix += view[:at]
            if len(self._prefix) < _PREFIX:
                return len(view)
            self._missing = self._size(self._prefix)
            self._prefix = bytearray()
        taken = view[at : at + self._missing]
        self._frame += taken
        self._missing -= len(taken)
        if not self._missing:
            frames.append(memoryview(self._frame).toreadonly())
            self._frame = bytearray()
        return at + len(taken)

    def _size(self, prefix: memoryview | bytearray) -> int:
        size = int.from_bytes(prefix, "big", signed=True)
        if not 0 <= size <= self._frame_bytes_max:
            self._broken = WireError(f"a frame of {size} bytes; at most {self._frame_bytes_max} are allowed")
            raise self._broken
        return size
