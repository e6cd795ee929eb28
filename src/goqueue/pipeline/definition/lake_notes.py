"""Small notes in the lake, as JSON: whose a checkpoint is, where a replay began, when tables were looked after."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
import pyarrow as pa
from pyarrow import fs

from goqueue.base.decoders import from_json
from goqueue.pipeline.lake.folders import folder
from goqueue.pipeline.lake.storage_failures import advice, one_line
from goqueue.pipeline.link.errors import PipelineError

_BUFFER_BYTES: Final = 1 << 16  # what object storage is given is bytes, and not a buffer of Arrow

T = TypeVar("T", bound=msgspec.Struct)


class NoteUnreadable(PipelineError):
    """A note is there, and says nothing that could be understood."""


class NoteUnwritable(PipelineError):
    """Nothing can be kept there."""


def place_of(where: str) -> tuple[fs.FileSystem, str]:
    """A path or URL as a file system and a path in it; object storage with the credentials that tables have."""
    if "://" not in where:
        return fs.LocalFileSystem(), where
    above, _, name = where.rpartition("/")
    return folder(above), name


def read_note(where: str, kind: type[T]) -> T | None:
    """None if there is none."""
    system, path = place_of(where)
    try:
        with system.open_input_stream(path) as file:
            return from_json(file.read(), kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, pa.ArrowException) as error:
        raise NoteUnreadable(f"{where} cannot be read: {one_line(error)}") from None


def write_note(where: str, note: msgspec.Struct) -> None:
    system, path = place_of(where)
    try:
        if "/" in path:
            system.create_dir(path.rpartition("/")[0], recursive=True)
        with system.open_output_stream(path, buffer_size=_BUFFER_BYTES) as file:
            file.write(msgspec.json.encode(note))
    except (OSError, pa.ArrowException) as error:
        to_do = advice(error, "Choose a lake that this user may write to.")
        raise NoteUnwritable(f"{where} cannot be written: {one_line(error)}. {to_do}") from None


def remove_note(where: str) -> None:
    system, path = place_of(where)
    if system.get_file_info(path).type is fs.FileType.File:
        system.delete_file(path)
