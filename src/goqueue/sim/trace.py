"""What happens in a simulated cluster, event by event: two runs of a seed have the same trace."""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Final

_KEPT: Final = 200


class Trace:
    """`digest` stands for all events, in their order; the last ones can be read."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()
        self._last: deque[str] = deque(maxlen=_KEPT)

    def note(self, now_s: float, what: str, content: bytes = b"") -> None:
        line = f"{now_s:.6f} {what}"
        self._hash.update(line.encode())
        self._hash.update(content)
        self._last.append(line)
        self.count += 1

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    @property
    def last(self) -> list[str]:
        return list(self._last)
