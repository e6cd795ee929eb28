"""The words of a .proto file, without comments."""

from __future__ import annotations

import re
from typing import Final

from goqueue.core.schemas.errors import InvalidSchema

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>0[xX][0-9a-fA-F]+ | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<mark>[=;{}\[\]()<>,.:+-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_PLAIN: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class Tokens:
    """Words one after the other; the empty one is the end."""

    def __init__(self, text: str) -> None:
        self._words: list[tuple[str, str, int]] = []
        at = line = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise InvalidSchema(
                    f"The schema is not right: line {line + 1}: {text[at]!r} is not expected.", field="schema"
                )
            if found.lastgroup is not None:
                self._words.append((found.lastgroup, found[0], line))
            line += found[0].count("\n")
            at = found.end()
        self._place = 0

    @property
    def kind(self) -> str:
        return self._words[self._place][0] if self._place < len(self._words) else ""

    def peek(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._words[place][1] if place < len(self._words) else ""

    def next(self) -> str:
        word = self.peek()
        if not word:
            raise self.wrong("the file ends too early")
        self._place += 1
        return word

    def take(self, word: str) -> bool:
        """Steps over the word if it is next."""
        if self.peek() != word:
            return False
        self._place += 1
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.wrong(f"{word!r} is expected, not {self.peek()[:40]!r}")

    def name(self) -> str:
        if self.kind != "word":
            raise self.wrong(f"a name is expected, not {self.peek()[:40]!r}")
        return self.next()

    def dotted(self) -> str:
        """`a.b.C`, also with a dot before it."""
        text = "." if self.take(".") else ""
        text += self.name()
        while self.take("."):
            text += "." + self.name()
        return text

    def whole(self) -> int:
        sign = -1 if self.take("-") else 1
        word = self.peek()
        try:
            number = int(word, 0) if not re.fullmatch(r"0[0-7]+", word) else int(word, 8)
        except ValueError:
            raise self.wrong(f"a whole number is expected, not {word[:40]!r}") from None
        self.next()
        return sign * number

    def string(self) -> bytes:
        """Neighbouring strings are one."""
        if self.kind != "string":
            raise self.wrong(f"a string is expected, not {self.peek()[:40]!r}")
        found = b""
        while self.kind == "string":
            found += _ESCAPE.sub(_unescape, self.next()[1:-1].encode())
        return found

    def text(self) -> str:
        return self.string().decode("utf-8", "replace")

    def wrong(self, why: str) -> InvalidSchema:
        line = self._words[min(self._place, len(self._words) - 1)][2] + 1 if self._words else 1
        return InvalidSchema(f"The schema is not right: line {line}: {why}.", field="schema")


def _unescape(found: re.Match[bytes]) -> bytes:
    octal, hexadecimal, plain = found.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    return _PLAIN.get(plain, plain)
