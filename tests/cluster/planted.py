"""Bugs that only tests can plant: a rule of replication is broken in a whole simulated cluster, and seeds are run until
a checker notices. `python -m tests.cluster.planted [BUG ...]` says how many each takes."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.log_settings import Fsync
from goqueue.core.cluster.elections import admitted, elected, needs_leader
from goqueue.core.replication.follower import cut_at
from goqueue.core.replication.leader import ShardLeader
from goqueue.core.replication.rules import ALL_RULES, ReplicationRule
from goqueue.drive.host import Host
from goqueue.drive.partition_opener import PartitionOpener
from goqueue.drive.partition_replica import PartitionReplica
from goqueue.format.batch import BatchHeader, Buffer
from goqueue.log.partition_log import PartitionLog
from goqueue.sim.minute import Minute, run_minute

SEEDS: Final = 200
SECONDS: Final = 10.0
Places = dict[str, Any]  # what stands there instead


class Bug(NamedTuple):
    rule: str  # its numbers
    what: str
    instead: Places
    fsync: Fsync = "interval"


def _without(rule: ReplicationRule) -> Places:
    """The pure rules, without one."""
    rules = ALL_RULES - {rule}
    return {
        "goqueue.drive.shard_roles.ShardLeader": partial(ShardLeader, rules=rules),
        "goqueue.drive.replica_fetches.cut_at": partial(cut_at, rules=rules),
        "goqueue.core.cluster.controlling.admitted": partial(admitted, rules=rules),
        "goqueue.core.cluster.controlling.elected": partial(elected, rules=rules),
        "goqueue.core.cluster.controlling.needs_leader": partial(needs_leader, rules=rules),
    }


async def _at_once(*_: object) -> None:
    pass


def _always(_: object) -> bool:
    return True


def _never(*_: object) -> bool:
    return False


def _nothing(*_: object) -> str:
    return ""


_append = PartitionLog.append
_shift = Host.shift


def _append_unstamped(log: PartitionLog, batch: Buffer, header: BatchHeader, epoch: int, *more: Any) -> Offset:
    return _append(log, batch, header, 0, *more)


def _last_epoch_of_appends(replica: PartitionReplica) -> int:
    return replica.partition.log.notes.epoch


_open_log = PartitionOpener.open


def _open_whosever(opener: PartitionOpener, at: TopicPartition, topic_id: str, *more: Any) -> Any:
    return _open_log(opener, at, "", *more)


def _take_back(host: Host[Any, Any], by_ms: int) -> None:
    _shift(host, by_ms - 3_600_000)


BUGS: Final = {
    "compare": Bug(
        "1",
        "a commit to the store compares nothing",
        {"goqueue.core.cluster.store_state.StoreState._compare": _nothing},
    ),
    "epoch": Bug(
        "2",
        "a leader answers followers that believe in another epoch",
        {"goqueue.drive.leading_shard.LeadingShard.refusal": _nothing},
    ),
    "stamp": Bug(
        "2",
        "a leader writes no epoch into its batches",
        {"goqueue.log.partition_log.PartitionLog.append": _append_unstamped},
    ),
    "forget": Bug(
        "3",
        "a follower that was started again does not know the epoch of its last batch",
        {"goqueue.drive.partition_replica.PartitionReplica.last_epoch": property(_last_epoch_of_appends)},
    ),
    "cut": Bug("3", "a follower cuts at its high watermark", _without(ReplicationRule.CUT_AT_EPOCH)),
    "count": Bug("4", "who is being added or removed is not waited for", _without(ReplicationRule.COUNT_ALL)),
    "synced": Bug("4", "under fsync=always what is written counts", _without(ReplicationRule.SYNCED), "always"),
    "minimum": Bug("5", "one alone acknowledges", _without(ReplicationRule.MINIMUM)),
    "acks": Bug(
        "6",
        "acks=all is answered when the leader has it",
        {"goqueue.service.acknowledging.wait_for_replicas": _at_once},
    ),
    "caught_up": Bug("7", "a replica counts when it has fetched once", _without(ReplicationRule.CAUGHT_UP)),
    "start": Bug("7, 8", "a node that started again counts as it did", _without(ReplicationRule.START)),
    "new_epoch": Bug("8", "a leader that started again goes on in its epoch", _without(ReplicationRule.NEW_EPOCH)),
    "in_sync_only": Bug("9", "any replica may lead", _without(ReplicationRule.IN_SYNC_ONLY)),
    "learn": Bug("10", "a new leader takes its log's end for the high watermark", _without(ReplicationRule.LEARN)),
    "load": Bug(
        "10, 11",
        "a new leader serves before its internal topics are acknowledged",
        {"goqueue.drive.shard_roles.ShardRoles._caught_up": _at_once},
    ),
    "leases": Bug("11", "a new leader takes all leases back", {"goqueue.drive.host.Host.shift": _take_back}),
    "skew": Bug("12", "a new leader takes its clock for the last one's", {"goqueue.drive.host.Host.shift": _nothing}),
    "session": Bug(
        "13",
        "a leader answers on without a session",
        {
            "goqueue.drive.shard_roles.LedShard.is_held": property(_always),
            "goqueue.drive.shard_roles.ShardRoles._watch_session": _at_once,
        },
    ),
    "stray": Bug(
        "14",
        "a log is opened whichever topic wrote it",
        {"goqueue.drive.partition_opener.PartitionOpener.open": _open_whosever},
    ),
    "start_offset": Bug(
        "15",
        "a follower keeps what its leader dropped",
        {"goqueue.drive.replica_fetches.FollowedShard._shorten": _nothing},
    ),
    "damage": Bug(
        "16",
        "a damaged replica counts as if it were whole",
        {"goqueue.drive.shard_damage.ShardDamage._is_damaged": _never},
    ),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    patches = [patch(place, instead) for place, instead in BUGS[name].instead.items()]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


def seeds_needed(name: str, seeds: range, tell: Callable[[str], None]) -> int | None:
    """A seed counts that breaks a promise with the bug and none without it."""
    for seed in seeds:
        minute = Minute(seed, BUGS[name].fsync, SECONDS)
        with planted(name):
            broken = run_minute(minute).broken
        if broken and not run_minute(minute).broken:
            tell(f"{name}: {seed - seeds.start + 1} seeds; seed {seed}: {broken}")
            return seed
    tell(f"{name}: not in {len(seeds)} seeds")
    return None


def main(names: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    for name in names or BUGS:
        began = time.monotonic()
        seeds_needed(name, range(SEEDS), partial(print, flush=True))
        print(f"    {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
