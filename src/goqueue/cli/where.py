"""`--where`: a small language over one message, like `value.total > 10 and headers.source == "shop"`.

It is parsed here and never given to Python: there is nothing to call but four functions, and every expression is
bounded in length and depth. What a message does not have is null; what cannot be compared is not equal and not less.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

Names: TypeAlias = Mapping[str, Any]
Expression: TypeAlias = Callable[[Names], Any]

NAMES: Final = ("value", "key", "headers", "timestamp", "partition", "offset", "priority", "topic")
_CHARS_MAX: Final = 2_000
_DEPTH_MAX: Final = 40
_DIGITS_MAX: Final = 30
_TEXT_MAX: Final = 1 << 20  # of a text that a pattern is looked for in
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_-]*)|(?P<sign>==|!=|<=|>=|[<>()\[\].,+*/%-]))"""
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_FUNCTIONS: Final = ("len", "lower", "upper", "exists")
_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=", "contains", "startswith", "endswith", "matches")


class BadExpression(ValueError):
    """It cannot be read; the message says where."""


def parse_where(text: str) -> Expression:
    """A function of a message's names. `BadExpression` if the text is none."""
    if len(text) > _CHARS_MAX:
        raise BadExpression(f"it has more than {_CHARS_MAX:,} characters")
    return _Parser(text).whole()


class _Parser:
    """By descent, weakest operators first. A token is its kind and its text."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def whole(self) -> Expression:
        found = self._either()
        kind, text, place = self._tokens[self._at]
        if kind != "end":
            raise BadExpression(f"{text!r} is not expected at {place}")
        return found

    def _is_sign(self, *texts: str) -> bool:
        kind, text, _ = self._tokens[self._at]
        return kind in ("sign", "word") and text in texts

    def _next(self) -> tuple[str, str, int]:
        token = self._tokens[self._at]
        self._at += token[0] != "end"
        return token

    def _expect(self, text: str) -> None:
        if not self._is_sign(text):
            raise BadExpression(f"{text!r} is missing at {self._tokens[self._at][2]}")
        self._at += 1

    def _either(self) -> Expression:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise BadExpression(f"it is nested deeper than {_DEPTH_MAX}")
        found = self._both()
        while self._is_sign("or"):
            self._at += 1
            found = _or(found, self._both())
        self._depth -= 1
        return found

    def _both(self) -> Expression:
        found = self._negated()
        while self._is_sign("and"):
            self._at += 1
            found = _and(found, self._negated())
        return found

    def _negated(self) -> Expression:
        turns = 0
        while self._is_sign("not"):
            self._at += 1
            turns += 1
        found = self._compared()
        return _not(found) if turns % 2 else found

    def _compared(self) -> Expression:
        left = self._sum()
        if not self._is_sign(*_COMPARISONS):
            return left
        sign = self._next()[1]
        if sign == "matches":
            return _matches(left, self._pattern())
        return _comparison(sign, left, self._sum())

    def _pattern(self) -> Any:
        kind, text, place = self._next()
        if kind != "text":
            raise BadExpression(f"a pattern in quotes is missing behind matches at {place}")
        import re2

        options = re2.Options()
        options.log_errors = False
        try:
            return re2.compile(_unquoted(text), options)
        except re2.error as error:
            raise BadExpression(f"the pattern at {place} is none ({error})") from None

    def _sum(self) -> Expression:
        found = self._product()
        while self._is_sign("+", "-"):
            found = _arithmetic(self._next()[1], found, self._product())
        return found

    def _product(self) -> Expression:
        found = self._signed()
        while self._is_sign("*", "/", "%"):
            found = _arithmetic(self._next()[1], found, self._signed())
        return found

    def _signed(self) -> Expression:
        if self._is_sign("-"):
            self._at += 1
            self._depth += 1
            if self._depth > _DEPTH_MAX:
                raise BadExpression(f"it is nested deeper than {_DEPTH_MAX}")
            found = _arithmetic("-", lambda names: 0, self._signed())
            self._depth -= 1
            return found
        return self._primary()

    def _primary(self) -> Expression:
        kind, text, place = self._next()
        if kind == "number":
            return _constant(_number(text, place))
        if kind == "text":
            return _constant(_unquoted(text))
        if kind == "sign" and text == "(":
            found = self._either()
            self._expect(")")
            return found
        if kind == "word" and text in _WORDS:
            return _constant(_WORDS[text])
        if kind == "word" and text in _FUNCTIONS:
            self._expect("(")
            argument = self._either()
            self._expect(")")
            return _call(text, argument)
        if kind == "word" and text in NAMES:
            return self._path(text)
        if kind == "end":
            raise BadExpression("something is missing at the end")
        raise BadExpression(f"{text!r} at {place} is not known; a message has {', '.join(NAMES)}")

    def _path(self, name: str) -> Expression:
        steps: list[str | int] = []
        while self._is_sign(".", "["):
            sign = self._next()[1]
            kind, text, place = self._next()
            if sign == "." and kind == "word":
                steps.append(text)
            elif sign == "[" and kind in ("number", "text"):
                steps.append(_unquoted(text) if kind == "text" else int(_number(text, place)))
                self._expect("]")
            else:
                raise BadExpression(f"a name is missing at {place}")
        return _path(name, steps)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    place = 0
    end = len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            rest = text[place:].lstrip()
            raise BadExpression(f"{rest.rstrip()[:10]!r} at {len(text) - len(rest) + 1} cannot be read")
        yield found.lastgroup, found[found.lastgroup], found.start(found.lastgroup) + 1
        place = found.end()
    yield "end", "", end + 1


def _number(text: str, place: int) -> float:
    if len(text) > _DIGITS_MAX:
        raise BadExpression(f"the number at {place} has more than {_DIGITS_MAX} digits")
    return int(text) if text.isdecimal() else float(text)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])


# --- what it means ------------------------------------------------------------------------------------


def _constant(value: Any) -> Expression:
    return lambda names: value


def _or(left: Expression, right: Expression) -> Expression:
    return lambda names: bool(left(names)) or bool(right(names))


def _and(left: Expression, right: Expression) -> Expression:
    return lambda names: bool(left(names)) and bool(right(names))


def _not(inner: Expression) -> Expression:
    return lambda names: not inner(names)


def _path(name: str, steps: list[str | int]) -> Expression:
    def find(names: Names) -> Any:
        found = names.get(name)
        for step in steps:
            if isinstance(found, dict):
                found = found.get(str(step))
            elif isinstance(found, list) and isinstance(step, int) and step < len(found):
                found = found[step]
            else:
                return None
        return found

    return find


_ORDER: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _comparison(sign: str, left: Expression, right: Expression) -> Expression:
    def compare(names: Names) -> bool:
        one, other = left(names), right(names)
        if sign == "==":
            return bool(one == other)
        if sign == "!=":
            return bool(one != other)
        if sign == "contains":
            return other in one if isinstance(one, list | dict) or _both_texts(one, other) else False
        if sign in ("startswith", "endswith"):
            return bool(_both_texts(one, other) and getattr(one, sign)(other))
        return bool((_both_numbers(one, other) or _both_texts(one, other)) and _ORDER[sign](one, other))

    def compare_safely(names: Names) -> bool:
        try:
            return compare(names)
        except TypeError:  # a list is no key
            return False

    return compare_safely


def _matches(left: Expression, pattern: Any) -> Expression:
    def look(names: Names) -> bool:
        found = left(names)
        return isinstance(found, str) and pattern.search(found[:_TEXT_MAX]) is not None

    return look


_ARITHMETIC: Final = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


def _arithmetic(sign: str, left: Expression, right: Expression) -> Expression:
    def compute(names: Names) -> Any:
        one, other = left(names), right(names)
        if not _both_numbers(one, other):
            return None
        try:
            return _ARITHMETIC[sign](one, other)
        except (ZeroDivisionError, OverflowError):
            return None

    return compute


def _call(name: str, argument: Expression) -> Expression:
    def call(names: Names) -> Any:
        given = argument(names)
        if name == "exists":
            return given is not None
        if name == "len":
            return len(given) if isinstance(given, str | list | dict) else None
        return getattr(given, name)() if isinstance(given, str) else None

    return call


def _both_numbers(one: object, other: object) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in (one, other))


def _both_texts(one: object, other: object) -> bool:
    return isinstance(one, str) and isinstance(other, str)


def json_or_text(data: bytes | None) -> Any:
    """A value as expressions see it: JSON if it is, else text, else null."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
