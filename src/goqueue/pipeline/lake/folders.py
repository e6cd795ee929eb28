"""Where tables lie: local folders or object storage, and the directories of partition values in them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from goqueue.pipeline.lake.errors import LakeError

# What an Iceberg table's folder has beside pyiceberg's own files: where its catalogue is.
NOTE_OF_ICEBERG: Final = "metadata/goqueue-table.json"
ORPHAN_MS: Final = 86_400_000  # a file of this age that no version names will not be committed any more
NOTHING: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f \"#%'*/:=?\\{}\[\]^~|<>`]")


def location(path: str) -> str:
    """The same place for every process, whatever folder it runs in."""
    if "://" in path:
        return path.rstrip("/")
    return str(Path(path).absolute())


def folder(table: str) -> fs.FileSystem:
    """A table's folder as a file system of its own; object storage with the credentials that delta-rs finds."""
    if "://" in table:
        return fs.PyFileSystem(DeltaStorageHandler(table))
    return fs.SubTreeFileSystem(table, fs.LocalFileSystem())


def has_file(table: str, name: str) -> bool:
    return bool(folder(location(table)).get_file_info(name).type is fs.FileType.File)


def value_text(value: Any) -> str | None:
    """A partition value as Delta writes it. An empty text is no value there."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int) or (isinstance(value, dt.date) and not isinstance(value, dt.datetime)):
        return str(value)
    raise LakeError(f"A table cannot be divided by values like {value!r}; use texts, whole numbers or dates.")


def directory(names: Sequence[str], values: Sequence[str | None]) -> str:
    """`topic=orders/date=2026-11-15`, escaped as Hive and Spark do."""
    return "/".join(f"{name}={escaped(value)}" for name, value in zip(names, values, strict=True))


def escaped(value: str | None) -> str:
    return NOTHING if value is None else _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def without(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """What a data file holds: partition values stand in the log and in the directory, not in the file."""
    return pa.schema([field for field in schema if field.name not in names])
