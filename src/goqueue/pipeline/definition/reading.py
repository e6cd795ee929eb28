"""A pipeline's file: read, held within limits, and checked as far as it goes without Spark."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import converted
from goqueue.pipeline.definition.mistakes import Lines, Mistake, PipelineFileError, Where, refusal
from goqueue.pipeline.definition.references import mistakes_in
from goqueue.pipeline.definition.words import Definition

_BYTES_MAX: Final = 1 << 20
_LISTS: Final = ("source", "step", "rule", "sink", "test")
_TOML_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)$")
_AT: Final = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_QUOTES: Final = re.compile(r'"""|\'\'\'')
_PATH: Final = re.compile(r"^\.([a-z_]+)(?:\[(\d+|\.\.\.)\])?(?:\.([A-Za-z_]+))?")


class PipelineFile(msgspec.Struct, frozen=True):
    """A definition, and the file that it came from."""

    path: Path
    definition: Definition
    text: str

    def refuse(self, *found: Mistake) -> PipelineFileError:
        return refusal(self.path.name, Lines(self.text), found)

    def text_begins_below(self, where: Where) -> int:
        """A text in three quotes begins a line below its key if nothing stands behind the quotes."""
        line = self.text.splitlines()[Lines(self.text).line(where) - 1].rstrip()
        return int(line.endswith(('"""', "'''")) and len(_QUOTES.findall(line)) == 1)

    def place(self, path: str) -> str:
        """A path of the file is meant from the file's folder; URLs are as they are."""
        return path if "://" in path else str(self.path.parent.absolute() / path)


def read_file(path: Path) -> PipelineFile:
    """The file, or `PipelineFileError` with all that is wrong in it."""
    try:
        if path.stat().st_size > _BYTES_MAX:
            raise PipelineFileError(f"{path}: larger than {_BYTES_MAX >> 10} KiB; that is no pipeline")
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark before the text
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineFileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return from_text(path, text)


def from_text(path: Path, text: str) -> PipelineFile:
    lines = Lines(text)
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _TOML_LINE.search(str(error))
        number = line[1] if line else max(1, len(text.splitlines()))  # it says "at end of document" else
        raise PipelineFileError(f"{path.name}:{number}: not TOML: {_TOML_LINE.sub('', str(error))}") from None
    except RecursionError:
        raise PipelineFileError(f"{path.name}:1: nested too deeply") from None
    for section in _LISTS:  # each is decoded by itself, so that the mistake's section is known
        _check_entries(path, lines, section, given.get(section))
    try:
        definition = converted(given, Definition)
    except msgspec.ValidationError as error:
        raise refusal(path.name, lines, [_mistake(str(error), None)]) from None
    found = list(mistakes_in(definition))
    if found:
        raise refusal(path.name, lines, found)
    return PipelineFile(path, definition, text)


def _check_entries(path: Path, lines: Lines, section: str, entries: object) -> None:
    if not isinstance(entries, list):
        return
    (kind,) = (field.type for field in msgspec.structs.fields(Definition) if field.name == section)
    found = []
    for number, entry in enumerate(entries):
        try:
            converted([entry], kind)
        except msgspec.ValidationError as error:
            found.append(_mistake(str(error), (section, number, "")))
    if found:
        raise refusal(path.name, lines, found)


def _mistake(told: str, entry: Where | None) -> Mistake:
    """msgspec's words, with the key's name instead of a path."""
    said = _AT.match(told)
    message, path = (said[1], said[2] or "") if said else (told, "")
    unknown = re.search(r"unknown field `([^`]+)`", message)
    if entry is not None:
        key = path.removeprefix("[0]").removeprefix("[...]").removeprefix(".").partition(".")[0].partition("[")[0]
        key = unknown[1] if unknown else key
        about = f"{entry[0]}: {key}: " if key and not unknown else f"{entry[0]}: "
        return Mistake(about + message, (entry[0], entry[1], key))
    found = _PATH.match(path)
    section = found[1] if found else ""
    key = unknown[1] if unknown else ""
    about = f"{section}: " if section else ""
    return Mistake(about + message, (section, 0, key) if section else ("", 0, key))
