"""How far one start of a follower is with each log of a shard, as it said last: it names only those that moved."""

from __future__ import annotations

from goqueue.base.replication import LogFetch, LogKey


class FollowerPlaces:
    """`behind` are those of its logs that there is something to tell of."""

    def __init__(self) -> None:
        self.all: dict[LogKey, LogFetch] = {}
        self.behind: dict[LogKey, None] = {}

    def hear(self, place: LogFetch, is_behind: bool) -> None:
        self.all[place.log] = place
        if is_behind:
            self.behind[place.log] = None
        else:
            self.behind.pop(place.log, None)

    def grown(self, key: LogKey) -> None:
        """The leader's log has more than that."""
        if key in self.all:
            self.behind[key] = None

    def forget(self, key: LogKey) -> None:
        self.all.pop(key, None)
        self.behind.pop(key, None)
