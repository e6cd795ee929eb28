"""Who is dropped from the in-sync set, and when."""

from __future__ import annotations

from goqueue.base.replication import LogKey
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.replication.leader import FetchedLog, InSyncRule, Replica, ShardLeader

LOG = LogKey("orders", 0)
RECORD = ShardRecord(0, 1, (0, 1, 2), (0, 1, 2), starts={0: "a", 1: "b", 2: "c"})


def leading() -> ShardLeader:
    leader = ShardLeader(Replica(0, "a"), RECORD, 7, InSyncRule(False, 10_000, 2_000), 0)
    leader.open_log(LOG, 10, 10, 0, 2)
    for replica in (Replica(1, "b"), Replica(2, "c")):
        leader.fetched(replica, {LOG: FetchedLog(10, 10)}, 1_000)
    return leader


def test_a_follower_that_is_registered_no_more_is_not_waited_for() -> None:
    leader = leading()
    leader.appended(LOG, 11)
    leader.fetched(Replica(1, "b"), {LOG: FetchedLog(11, 11)}, 1_010)
    assert leader.logs[LOG].high_watermark == 10
    assert leader.wanted({0: "a", 1: "b", 2: "c"}, 1_020) is None
    change = leader.wanted({0: "a", 1: "b"}, 1_020)
    assert change is not None and (change.record.in_sync, change.revision) == ((0, 1), 7)
    assert leader.logs[LOG].high_watermark == 10, "not before the store has confirmed it"
    assert leader.confirmed(change.record, 8) == [LOG]
    assert leader.logs[LOG].high_watermark == 11


def test_nor_is_another_start_of_it_what_was_counted() -> None:
    change = leading().wanted({0: "a", 1: "b", 2: "another"}, 1_020)
    assert change is not None and change.record.in_sync == (0, 1)


def test_a_follower_that_is_silent_is_dropped_after_a_while() -> None:
    living = {0: "a", 1: "b", 2: "c"}
    leader = leading()
    leader.fetched(Replica(1, "b"), {LOG: FetchedLog(10, 10)}, 2_900)
    assert leader.wanted(living, 3_000) is None
    change = leader.wanted(living, 3_001)
    assert change is not None and change.record.in_sync == (0, 1)
