"""SIGTERM and Ctrl-C as a question that is asked now and then."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Within the block the first signal is kept until it is asked for. The second one is a KeyboardInterrupt."""

    def __init__(self) -> None:
        self.is_asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self.listen()
        return self

    def __exit__(self, *raised: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def listen(self) -> None:
        """Once more where others, as Spark does, have put themselves in the place."""
        for number in _SIGNALS:
            before = signal.signal(number, self._heard)
            self._before.setdefault(number, before)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
