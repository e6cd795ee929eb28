"""The metadata store as a port: small facts, rarely written, that all nodes agree on. Never anything per message.

Every commit has a revision; revisions grow. A key knows the revision that made it and the one that last wrote it. Keys
are a word, or a word and a name: `topics/orders`. Values are text, as a rule JSON.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from goqueue.base.errors import InvalidName, MetadataTooLarge
from goqueue.base.limits import METADATA_COMMIT_KEYS_MAX, METADATA_VALUE_CHARS_MAX, NAME_CHARS_MAX

Revision: TypeAlias = int
ABSENT: Final[Revision] = 0  # what a commit expects of a key that must not be there

_KEY: Final = re.compile(rf"[a-z][a-z-]*(/[a-zA-Z0-9._~-]{{1,{NAME_CHARS_MAX}}})?")


class WatchedTooLate(Exception):
    """The changes since that revision are no longer known one by one: read all again."""


class Entry(msgspec.Struct, frozen=True):
    key: str
    value: str
    created: Revision
    modified: Revision
    session: int | None = None  # with which the key ends


class Snapshot(msgspec.Struct, frozen=True):
    """All there is, as of a revision."""

    revision: Revision
    entries: Mapping[str, Entry]


class Change(msgspec.Struct, frozen=True):
    """What one commit did, or the end of a session."""

    revision: Revision
    puts: Sequence[Entry] = ()
    deletes: Sequence[str] = ()


class Commit(msgspec.Struct, frozen=True):
    """All of it, or nothing if a key has not the revision that is expected of it. Keys with a `session` end with it."""

    puts: Mapping[str, str] = {}
    deletes: Sequence[str] = ()
    modified: Mapping[str, Revision] = {}  # expected last writes, or `ABSENT`
    created: Mapping[str, Revision] = {}  # expected makings: a key that was made anew has another
    session: int | None = None


class Session(Protocol):
    """Ours for as long as we live. Keys that were put with it are gone afterwards."""

    @property
    def id(self) -> int: ...

    @property
    def is_lost(self) -> bool: ...

    async def end(self) -> None: ...


class Metadata(Protocol):
    async def read(self) -> Snapshot: ...

    def watch(self, after: Revision) -> AsyncIterator[Change]:
        """Every change behind a revision, in order, until `close`; `WatchedTooLate` if that is too far back."""
        ...

    async def commit(self, commit: Commit) -> Revision:
        """The revision that everything has from now on; `MetadataConflict` if something is not as expected.

        Durable when it returns. If it raises anything else, it may or may not have been done: read again.
        """
        ...

    async def open_session(self) -> Session: ...

    async def close(self) -> None:
        """Ends sessions and watches."""
        ...


def check_commit(commit: Commit) -> None:
    """Raises if a key is none, or if there is too much of something."""
    for key in (*commit.puts, *commit.deletes):
        if _KEY.fullmatch(key) is None or key.endswith(("/.", "/..")):
            raise InvalidName(f"{key[:80]!r} is not a key of the metadata store.")
    if len(commit.puts) + len(commit.deletes) > METADATA_COMMIT_KEYS_MAX:
        raise MetadataTooLarge(f"One commit changes at most {METADATA_COMMIT_KEYS_MAX} keys.")
    for key, value in commit.puts.items():
        if len(value) > METADATA_VALUE_CHARS_MAX:
            raise MetadataTooLarge(f"The value of {key} has {len(value)} characters, over {METADATA_VALUE_CHARS_MAX}.")
