"""What a leader knows of one follower's logs of a shard, so that a fetch and its answer name only what moved.

The follower names all of its logs once, which begins a session, and then those that moved. Whatever is out of order
ends the session: a fetch that was lost, one that comes late, a log that is opened or closed on either side, another
start of the follower. Then it names all of them again.
"""

from __future__ import annotations

from goqueue.base.replication import LogFetch, LogKey
from goqueue.core.replication.leader import Replica


class FollowerSession:
    """Of one start of a follower."""

    def __init__(self, session_id: int, by: Replica) -> None:
        self.id = session_id
        self.by = by
        self.number = 0  # of the fetch that was heard last
        self.is_over = False
        self.places: dict[LogKey, LogFetch] = {}
        self.behind: dict[LogKey, None] = {}  # there is more of these, or histories part: that is told at once
        self.changed: dict[LogKey, None] = {}  # marks and starts of these moved: that is told with the next answer
        self._unreadable: dict[LogKey, None] = {}  # there is more of these that the disk did not give

    def hear(self, place: LogFetch, is_behind: bool) -> None:
        """Those that stay behind go to the end of the row, so that every log has its turn."""
        if place.log not in self.places:
            self.changed[place.log] = None  # it has heard nothing of this one
        self.places[place.log] = place
        self.behind.pop(place.log, None)
        self._unreadable.pop(place.log, None)
        if is_behind:
            self.behind[place.log] = None

    def grown(self, key: LogKey) -> None:
        """The leader's log has more."""
        if key in self.places:
            self.behind[key] = None

    def moved(self, key: LogKey) -> None:
        """The mark or the start of the leader's log moved."""
        if key in self.places:
            self.changed[key] = None

    def put_off(self, key: LogKey) -> None:
        """What is next of it cannot be read: until there is more, somebody else leads, or `read_again`."""
        if key in self.behind:
            del self.behind[key]
            self._unreadable[key] = None

    def read_again(self) -> None:
        self.behind.update(self._unreadable)
        self._unreadable.clear()

    def to_tell(self) -> list[LogKey]:
        """The logs that the next answer is about. If it is lost the session ends, so that all is told again."""
        keys = [*self.behind, *(key for key in self.changed if key not in self.behind)]
        self.changed.clear()
        return keys


class FollowerSessions:
    """Of all followers of a shard in one epoch."""

    def __init__(self) -> None:
        self._sessions: dict[int, FollowerSession] = {}  # by node
        self._last_id = 0

    def begin(self, by: Replica) -> FollowerSession:
        """In place of the one before."""
        self._end(by.node)
        self._last_id += 1
        self._sessions[by.node] = session = FollowerSession(self._last_id, by)
        return session

    def next(self, by: Replica, session_id: int, number: int) -> FollowerSession | None:
        """The session, if this is its next fetch."""
        session = self._sessions.get(by.node)
        if session is None or (session.by, session.id, session.number + 1) != (by, session_id, number):
            self._end(by.node)
            return None
        session.number = number
        return session

    def place(self, node: int, key: LogKey) -> LogFetch | None:
        """What a follower said last of one of its logs."""
        session = self._sessions.get(node)
        return None if session is None else session.places.get(key)

    def end_all(self) -> None:
        """The shard has other logs now."""
        for node in list(self._sessions):
            self._end(node)

    def _end(self, node: int) -> None:
        if (session := self._sessions.pop(node, None)) is not None:
            session.is_over = True

    def grown(self, key: LogKey) -> None:
        for session in self._sessions.values():
            session.grown(key)

    def moved(self, key: LogKey) -> None:
        for session in self._sessions.values():
            session.moved(key)

    def read_again(self) -> None:
        """The disk may give back by now what it did not."""
        for session in self._sessions.values():
            session.read_again()
