"""Small files beside the tables, wherever the lake is: a local folder, or object storage by its URL."""

from __future__ import annotations

from pathlib import Path

from pyarrow import fs


def _at(path: str) -> tuple[fs.FileSystem, str]:
    if "://" in path:
        filesystem, inner = fs.FileSystem.from_uri(path)
        return filesystem, inner
    return fs.LocalFileSystem(), str(Path(path).absolute())


def read_text(path: str) -> str | None:
    """None if there is no such file."""
    filesystem, inner = _at(path)
    if filesystem.get_file_info(inner).type != fs.FileType.File:
        return None
    with filesystem.open_input_stream(inner) as stream:
        return bytes(stream.readall()).decode("utf-8", "replace")


def write_text(path: str, text: str) -> None:
    """Whole or not at all: readers never see half of it."""
    filesystem, inner = _at(path)
    filesystem.create_dir(inner.rpartition("/")[0], recursive=True)
    if not isinstance(filesystem, fs.LocalFileSystem):
        with filesystem.open_output_stream(inner) as stream:
            stream.write(text.encode())
        return
    beside = Path(inner + ".new")
    beside.write_text(text)
    beside.replace(inner)
