"""Copies from and to files: a JSON object a line, as `goqueue consume --output json` writes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from goqueue.api.messages import Encoding, HeaderValue
from goqueue.base.decoders import from_json
from goqueue.cli.copy_parts import CopyBatch, CopyNote, parse_note
from goqueue.cli.failures import Failed, Misused
from goqueue.client import Message
from goqueue.client.messages import encode_received, headers_of_json, to_bytes

_LINE_BYTES_MAX: Final = 64 << 20
_BATCH: Final = 1_000
_BATCH_BYTES_MAX: Final = 8 << 20


class FileMessage(msgspec.Struct, frozen=True):
    """One line. Only the value has to be there; binary ones are base64, with `encoding` saying so."""

    value: str | None
    key: str | None = None
    encoding: Encoding = "text"
    key_encoding: Encoding = "text"
    headers: dict[str, HeaderValue] = {}
    timestamp: int = -1
    priority: str = "normal"
    partition: int = 0
    offset: int = 0
    topic: str = ""

    def message(self) -> Message:
        key, value = to_bytes(self.key, self.key_encoding), to_bytes(self.value, self.encoding)
        place = self.topic, self.partition, self.offset, self.timestamp
        return Message(*place, key, value, headers_of_json(self.headers), self.priority)


class FileSource:
    """A position is a number of bytes. Standard input cannot be gone on with."""

    def __init__(self, path: str) -> None:
        self._name = "standard input" if path == "-" else path
        self._file: BinaryIO = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115

    def total(self, position: str | None) -> None:
        return None

    def batches(self, position: str | None) -> Iterator[CopyBatch]:
        place = 0
        if position is not None:
            if not position.isdecimal() or not self._file.seekable():
                raise Misused(f"{self._name} cannot be gone on with from {position!r}.")
            place = int(position)
            self._file.seek(place)
        held: list[Message] = []
        size = number = 0
        while line := self._file.readline(_LINE_BYTES_MAX + 1):
            number += 1
            place += len(line)
            if line.strip():
                held.append(self._message(line, number))
                size += len(line)
            if len(held) >= _BATCH or size >= _BATCH_BYTES_MAX:
                yield CopyBatch(held, str(place))
                held, size = [], 0
        if held:
            yield CopyBatch(held, str(place))

    def _message(self, line: bytes, number: int) -> Message:
        if len(line) > _LINE_BYTES_MAX:
            raise Failed(f"{self._name}, line {number}: longer than {_LINE_BYTES_MAX:,} bytes.")
        try:
            return from_json(line, FileMessage).message()
        except ValueError as error:
            raise Failed(
                f"{self._name}, line {number}: {error}. A line is an object like "
                '{"key": "k", "value": "v"}; binary ones have "encoding": "base64".'
            ) from None

    def acknowledge(self, count: int) -> None:
        """Nothing is taken away here."""

    def close(self) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()


class FileSink:
    """With a name, the note is in `PATH.NAME.copy`: what was written behind it is cut off before a copy goes on."""

    def __init__(self, path: str, name: str | None) -> None:
        self._path = Path(path)
        self._is_pipe = path == "-"
        if self._is_pipe and name is not None:
            raise Misused("What goes to standard output cannot be gone on with; leave --resume out.")
        self._note = None if name is None else self._path.with_name(f"{self._path.name}.{name}.copy")
        found = self.note()
        if not self._is_pipe and found is None and self._path.exists():
            raise Failed(f"{path} is there already; move it away, or choose another file.")
        self._file: BinaryIO = sys.stdout.buffer if self._is_pipe else self._path.open("ab")
        if found is not None:
            self._file.truncate(found.length)

    def note(self) -> CopyNote | None:
        if self._note is None or not self._note.is_file():
            return None
        found = parse_note(self._note.read_bytes())
        if found is None:
            raise Failed(f"{self._note} is no note of a copy; delete it and the file to begin anew.")
        return found

    def write(self, messages: Sequence[Message], note: CopyNote) -> None:
        self._file.writelines(encode_received(one) + b"\n" for one in messages)
        self._file.flush()
        if self._note is None:
            return
        os.fsync(self._file.fileno())
        length = os.fstat(self._file.fileno()).st_size
        fresh = self._note.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(msgspec.structs.replace(note, length=length).text().encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._note)

    def close(self) -> None:
        if not self._is_pipe:
            self._file.close()
