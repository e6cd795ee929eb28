"""The gRPC API as its file tells it, comments included: what is below a line of comment belongs to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_SECTION: Final = re.compile(r"// --- (.+?) -+$")
_COMMENT: Final = re.compile(r"//\s?(.*)$")
_OPEN: Final = re.compile(r"(service|message|enum|oneof) (\w+) \{(\})?$")
_METHOD: Final = re.compile(r"rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\);$")
_FIELD: Final = re.compile(r"(?:(optional|repeated) )?(map<\w+, \w+>|\w+) (\w+) = (\d+);$")
_VALUE: Final = re.compile(r"(\w+) = (\d+);$")


class ProtoMethod(NamedTuple):
    name: str
    request: str
    answer: str
    is_request_stream: bool
    is_answer_stream: bool
    comment: str


class ProtoField(NamedTuple):
    """Of an enum's value only name, number and comment count."""

    name: str
    number: int
    kind: str = ""
    label: str = ""  # optional or repeated
    choice: str = ""  # the oneof that it is one of
    comment: str = ""


class ProtoType(NamedTuple):
    """A service, a message or an enum."""

    section: str
    kind: str
    name: str
    comment: str
    methods: list[ProtoMethod]
    fields: list[ProtoField]


def parse_proto(text: str) -> list[ProtoType]:
    """In the order of the file. A line that is not understood is an error."""
    return list(_Reader(text).types())


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = [line.strip() for line in text.splitlines()]
        self._section = ""
        self._comment: list[str] = []
        self._type: ProtoType | None = None
        self._choice = ""

    def types(self) -> Iterator[ProtoType]:
        for line in self._lines:
            if found := self._line(line):
                yield found

    def _line(self, line: str) -> ProtoType | None:
        """A type that ended here."""
        if section := _SECTION.match(line):
            self._section = section[1]
        elif comment := _COMMENT.match(line):
            self._comment.append(comment[1])
            return None
        elif opened := _OPEN.match(line):
            return self._open(*opened.groups())
        elif line == "}":
            return self._close()
        elif self._type is not None and line:
            self._member(self._type, line)
        self._comment = []
        return None

    def _open(self, kind: str, name: str, closed: str | None) -> ProtoType | None:
        if kind == "oneof":
            self._choice = name
        else:
            self._type = ProtoType(self._section, kind, name, self._said(), [], [])
        self._comment = []
        return self._close() if closed else None

    def _close(self) -> ProtoType | None:
        self._comment = []
        if self._choice:
            self._choice = ""
            return None
        ended, self._type = self._type, None
        return ended

    def _member(self, owner: ProtoType, line: str) -> None:
        if method := _METHOD.match(line):
            name, up, request, down, answer = method.groups()
            owner.methods.append(ProtoMethod(name, request, answer, bool(up), bool(down), self._said()))
        elif field := _FIELD.match(line):
            label, kind, name, number = field.groups()
            owner.fields.append(ProtoField(name, int(number), kind, label or "", self._choice, self._said()))
        elif value := _VALUE.match(line):
            owner.fields.append(ProtoField(value[1], int(value[2]), comment=self._said()))
        else:
            raise ValueError(f"{owner.name} has a line that is no method and no field: {line}")

    def _said(self) -> str:
        return " ".join(self._comment)
