"""Contexts: named addresses with their key and authority, in one private file of the user's.

The file is `goqueue/contexts.json` under `XDG_CONFIG_HOME` or `~/.config`, with mode 0600, replaced whole.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.cli.failures import Failed, Misused

_BYTES_MAX: Final = 1 << 20
_CONTEXTS_MAX: Final = 1_000
_LOCK_S_MAX: Final = 10.0
_PAUSE_S: Final = 0.05
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a broker is, who asks, and whom it trusts."""

    server: str
    key: str = ""
    ca_file: str = ""


class Contexts(msgspec.Struct, frozen=True):
    """All of them, and the name of the one that is used when nothing else is said."""

    current: str | None = None
    contexts: dict[str, Context] = {}

    def get(self, name: str) -> Context:
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none yet"
            raise Misused(f"There is no context {name!r}; there are: {known}. `goqueue context add` makes one.")
        return self.contexts[name]


def contexts_file() -> Path:
    """The specification ignores an XDG_CONFIG_HOME that is not absolute."""
    chosen = Path(os.environ.get("XDG_CONFIG_HOME") or ".")
    folder = chosen if chosen.is_absolute() else Path.home() / ".config"
    return folder / "goqueue" / "contexts.json"


def check_context_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Misused(f"{name!r} is no name of a context; use up to 64 letters, digits, dots, dashes, underscores.")
    return name


def read_contexts() -> Contexts:
    """None where there is no file."""
    file = contexts_file()
    try:
        with file.open("rb") as opened:
            data = opened.read(_BYTES_MAX + 1)
    except FileNotFoundError:
        return Contexts()
    if len(data) > _BYTES_MAX:
        raise Failed(f"{file} has more than {_BYTES_MAX:,} bytes; move it away and add the contexts again.")
    try:
        return from_json(data, Contexts)
    except msgspec.DecodeError as error:
        raise Failed(f"{file} cannot be read ({error}); mend it, or move it away and add the contexts again.") from None


@contextmanager
def changing_contexts() -> Iterator[Contexts]:
    """Holds the file's folder locked, so that of two programs that change it neither is lost."""
    folder = contexts_file().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        _wait_for(lock, folder)
        yield read_contexts()
    finally:
        os.close(lock)


def _wait_for(lock: int, folder: Path) -> None:
    deadline = time.monotonic() + _LOCK_S_MAX
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Failed(f"Another program holds {folder} locked; end it, and try again.") from None
            time.sleep(_PAUSE_S)


def write_contexts(contexts: Contexts) -> None:
    """Only inside `changing_contexts`."""
    if len(contexts.contexts) > _CONTEXTS_MAX:
        raise Failed(f"There are {_CONTEXTS_MAX:,} contexts already; remove some.")
    file = contexts_file()
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n")
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(file)
