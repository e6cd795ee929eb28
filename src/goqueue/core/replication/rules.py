"""The rules of replication, each with what it prevents. A broker keeps all of them.

They have names so that a simulation can leave one out and show that its checkers notice. Nothing but a test makes a
`Rules` that lacks one.
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias


class ReplicationRule(enum.Enum):
    COMPARE = "a shard's record is written only as it was read: two leaders"
    EPOCH = "whoever believes in another epoch is refused: zombies"
    CUT_AT_EPOCH = "a follower cuts where its history parts from the leader's: loss after two quick failovers"
    COUNT_ALL = "those being added and those being removed hold the high watermark back: loss when the set changes"
    MINIMUM = "nothing is acknowledged while too few are in sync: the last replica loses its disk"
    CAUGHT_UP = "a replica counts when it has everything acknowledged: loss when it is elected"
    START = "a node that started again does not count as it did: a rebooted replica that lost its tail"
    NEW_EPOCH = "a leader that started again never goes on in its epoch: two values at one place"
    IN_SYNC_ONLY = "a leader comes from those that have everything: unclean election"
    LEARN = "a new leader learns the high watermark anew: readers see what was never acknowledged"
    SYNCED = "under fsync=always only what is on the disk counts: loss in a power cut"


Rules: TypeAlias = frozenset[ReplicationRule]
ALL_RULES: Final[Rules] = frozenset(ReplicationRule)
