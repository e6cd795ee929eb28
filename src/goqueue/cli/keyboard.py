"""Keys of a terminal, one by one, without waiting for Enter."""

from __future__ import annotations

import codecs
import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SEQUENCES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
}
_SINGLE: Final = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\t": "tab", "\x1b": "escape"}


def keys_of(text: str) -> list[str]:
    """What was pressed. Sequences that mean nothing here are dropped whole."""
    found, place = [], 0
    while place < len(text):
        sequence = text[place : place + 3]
        if sequence in _SEQUENCES:
            found.append(_SEQUENCES[sequence])
            place += 3
        elif sequence[:2] in ("\x1b[", "\x1bO"):
            place += 2
            while place < len(text) and not text[place].isalpha() and text[place] != "~":
                place += 1
            place += 1
        else:
            found.append(_SINGLE.get(text[place], text[place]))
            place += 1
    return found


class Keyboard:
    """Use `keyboard()`, which gives the terminal back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def wait(self, seconds: float) -> list[str]:
        """What is pressed within that time; nothing if nothing is. An end of input is a `q`."""
        if not select.select([self._descriptor], [], [], max(0.0, seconds))[0]:
            return []
        data = os.read(self._descriptor, 1024)
        return keys_of(self._decoder.decode(data)) if data else ["q"]


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)  # Ctrl-C goes on to interrupt
    try:
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
