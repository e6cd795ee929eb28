"""Which replicated logs of this node have files, noted outside their directories.

A log whose directory was deleted looks like one that never had a message. Its node would count as in sync after a
start, and could lead, and have the other replicas cut off all that they have. One file for each topic, by its id, has a
line for each partition, written as the log's directory is made: a killed process leaves it behind. It is durable before
a sync says of the log's first messages that they are.
"""

from __future__ import annotations

import threading
from typing import Final

from goqueue.log.disk import Disk
from goqueue.log.home import unless_full

HELD: Final = "held"


class HeldLogs:
    """Of one node. Asked and told on any thread."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known: dict[str, set[str]] = {}  # partitions by topic
        self._unsynced: set[str] = set()  # topics
        self._lock = threading.Lock()

    def has(self, topic_id: str, partition: int) -> bool:
        """The log had files once."""
        with self._lock:
            return str(partition) in self._of(topic_id)

    def add(self, topic_id: str, partition: int) -> None:
        with self._lock, unless_full():
            if str(partition) not in (known := self._of(topic_id)):
                self._disk.make_dirs(HELD)
                self._disk.open(_path(topic_id), create=True, spare=True).append([f"{partition}\n".encode()])
                known.add(str(partition))
                self._unsynced.add(topic_id)

    def settle(self, topic_id: str) -> None:
        """What was added of a topic is durable when this returns. Blocks."""
        with self._lock:
            if topic_id not in self._unsynced:
                return
            self._unsynced.discard(topic_id)
        try:
            self._disk.open(_path(topic_id), spare=True).sync()
            for directory in (HELD, ""):
                self._disk.sync_dir(directory)
        except FileNotFoundError:
            return  # the topic was deleted meanwhile
        except OSError:
            self._unsynced.add(topic_id)
            raise

    def forget(self, topic_id: str) -> None:
        """The topic was deleted, and its id is nobody's any more."""
        with self._lock:
            self._known.pop(topic_id, None)
            self._disk.remove(_path(topic_id))

    def _of(self, topic_id: str) -> set[str]:
        if (known := self._known.get(topic_id)) is None:
            stored = self._disk.read_file(_path(topic_id)) or b""
            known = self._known[topic_id] = set(stored.decode(errors="replace").split("\n"))
        return known


def _path(topic_id: str) -> str:
    return f"{HELD}/{topic_id}"
