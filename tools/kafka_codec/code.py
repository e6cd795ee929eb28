"""Lines of Python being written, and the runs of fixed-size values that become one `struct` call."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator
from contextlib import contextmanager
from struct import calcsize

from tools.kafka_codec.model import Field

WORDS = {"?": "bool", "b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64", "d": "f64"}
WORDS |= {"16s": "uuid", "x": "zero"}
TAKEN = {"buf", "at", "end", "left", "out", "stop", "message", "buffers"}


def constant(verb: str, letters: list[str]) -> str:
    return f"_{verb}_" + "_".join(WORDS[letter] for letter in letters)


class Code:
    """One function's body. `run` holds fixed values not written yet: pairs of letter and variable or expression."""

    def __init__(self, constants: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.constants = constants
        self.depth = 1
        self.used: dict[str, int] = {}
        self.run: list[tuple[str, str]] = []

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        self.add(line)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, word: str) -> str:
        """A local name used nowhere else in the function, so that each has one type."""
        if word in TAKEN or keyword.iskeyword(word) or hasattr(builtins, word):
            word += "_"
        self.used[word] = count = self.used.get(word, 0) + 1
        return word if count == 1 else f"{word}_{count}"

    def take_run(self, verb: str) -> tuple[list[str], list[str], str, int]:
        letters, names = [each[0] for each in self.run], [each[1] for each in self.run]
        self.run = []
        name = constant(verb, letters)
        shape = ">" + "".join(letters)
        self.constants[name] = f'{name} = Struct("{shape}").{"unpack_from" if verb == "unpack" else "pack"}'
        return letters, names, name, calcsize(shape)


def python_type(field: Field) -> str:
    kinds = {
        "string": "str",
        "bytes": "Buffer",
        "records": "Buffer",
        "uuid": "bytes",
        "bool": "bool",
        "float64": "float",
    }
    kind = field.type if field.is_struct else kinds.get(field.type, "int")
    if field.array:
        kind = f"Sequence[{kind}]"
    return kind if field.nullable.empty else f"{kind} | None"


def default_text(field: Field) -> str:
    if field.is_struct and not field.array and field.nullable.empty:
        return empty_struct(field.type)
    if field.type == "uuid":
        return "NO_UUID"
    return repr(field.default).replace("'", '"')


def empty_struct(name: str) -> str:
    return "_EMPTY_" + "".join("_" + c if c.isupper() else c.upper() for c in name).lstrip("_").upper()
