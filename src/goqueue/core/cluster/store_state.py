"""The contents of a metadata store, as forms other than etcd keep them: decides, applies, remembers for watches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from goqueue.base.errors import MetadataConflict, SessionLost
from goqueue.base.limits import METADATA_HISTORY_MAX
from goqueue.base.metadata import ABSENT, Change, Commit, Entry, Revision, Snapshot, WatchedTooLate, check_commit


class StoreState:
    """Changes by `apply` alone."""

    def __init__(self, entries: Iterable[Entry] = (), revision: Revision = 0) -> None:
        self._entries: dict[str, Entry] = {entry.key: entry for entry in entries}
        self.revision = max(revision, max((entry.modified for entry in self._entries.values()), default=0))
        self._history: deque[Change] = deque(maxlen=METADATA_HISTORY_MAX)
        self._forgotten = self.revision  # changes up to here are not in the history
        self._sessions: set[int] = set()
        self._last_session = 0

    def read(self) -> Snapshot:
        return Snapshot(self.revision, dict(self._entries))

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def changes(self, after: Revision) -> list[Change]:
        """`WatchedTooLate` if some of them are forgotten."""
        if after < self._forgotten:
            raise WatchedTooLate(f"Changes are known from revision {self._forgotten} on, not from {after}.")
        return [change for change in self._history if change.revision > after]

    # --- commits -------------------------------------------------------------------------------------------

    def decide(self, commit: Commit) -> Change:
        """What the commit changes, if everything is as it expects."""
        check_commit(commit)
        self._compare(commit.modified, "modified")
        self._compare(commit.created, "created")
        if commit.session is not None and commit.session not in self._sessions:
            raise SessionLost("The session with the metadata store is over; begin another.")
        revision = self.revision + 1
        puts = [self._put(key, value, revision, commit.session) for key, value in commit.puts.items()]
        return Change(revision, puts, [key for key in commit.deletes if key in self._entries])

    def _compare(self, expected: Mapping[str, Revision], which: str) -> None:
        for key, revision in expected.items():
            entry = self._entries.get(key)
            if (ABSENT if entry is None else getattr(entry, which)) != revision:
                raise MetadataConflict(f"{key} was changed by somebody else; look again and decide anew.")

    def _put(self, key: str, value: str, revision: Revision, session: int | None) -> Entry:
        before = self._entries.get(key)
        return Entry(key, value, before.created if before else revision, revision, session)

    def apply(self, change: Change) -> None:
        for key in change.deletes:
            self._entries.pop(key, None)
        for entry in change.puts:
            self._entries[entry.key] = entry
        self.revision = change.revision
        if len(self._history) == self._history.maxlen:
            self._forgotten = self._history[0].revision
        self._history.append(change)

    def forget_history(self) -> None:
        """As a store does that is compacted."""
        self._history.clear()
        self._forgotten = self.revision

    # --- sessions ------------------------------------------------------------------------------------------

    def begin_session(self) -> int:
        self._last_session += 1
        self._sessions.add(self._last_session)
        return self._last_session

    def is_open(self, session: int) -> bool:
        return session in self._sessions

    def end_session(self, session: int) -> Change | None:
        """The end of everything that is bound to it, to be applied; None if there is nothing."""
        self._sessions.discard(session)
        bound = [entry.key for entry in self._entries.values() if entry.session == session]
        return Change(self.revision + 1, (), bound) if bound else None
