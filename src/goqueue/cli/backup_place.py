"""Where backups are kept: bytes by key, in a directory or in a bucket."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, Protocol

from goqueue.cli.failures import Failed

TEMPORARY: Final = ".tmp"  # at the end of what is not written whole yet


class BackupDamaged(Failed):
    """The bytes are there, but not as they were written."""


class BackupPlace(Protocol):
    """A key has slashes, as a path has."""

    name: str  # as somebody wrote it

    def changing(self) -> AbstractContextManager[None]:
        """One at a time writes to it; raises `Failed` for the others."""
        ...

    def renew(self) -> None:
        """To be called every few seconds while `changing`. Raises `Failed` if another one writes now."""

    def confirm(self) -> None:
        """Raises `Failed` if another one writes now: asked before what cannot be taken back."""

    def read(self, key: str) -> bytes | None:
        """None if there is no such key. Raises `BackupDamaged`."""
        ...

    def size(self, key: str) -> int:
        """-1 if there is no such key."""
        ...

    def keys(self, below: str) -> list[str]:
        """At any depth; others may keep theirs there too."""
        ...

    def write(self, key: str, data: bytes) -> None:
        """It is there whole, or not at all."""

    def append(self, key: str, data: bytes) -> None:
        """A note, which may be lost."""

    def delete(self, key: str) -> None: ...

    def settle(self) -> None:
        """What was written, and what `size` was asked of, stays, whatever happens; what was deleted is gone."""
