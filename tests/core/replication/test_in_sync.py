"""Who is dropped from the in-sync set, and when."""

from __future__ import annotations

import msgspec

from goqueue.base.replication import LogKey
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.replication.leader import FetchedLog, InSyncRule, Replica, SetChange, ShardLeader

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


def test_a_follower_of_a_log_that_always_grows_is_not_behind() -> None:
    """It never has everything that is there, and always what was there a moment ago."""
    leader, living = leading(), {0: "a", 1: "b", 2: "c"}
    for now in range(1_100, 20_000, 100):
        end = 10 + now // 100
        leader.appended(LOG, end + 1)
        for replica in (Replica(1, "b"), Replica(2, "c")):
            leader.fetched(replica, {LOG: FetchedLog(end, end)}, now)
        assert leader.wanted(living, now) is None
    assert leader.lags(20_000)[1].ms < 500


def test_a_follower_that_gets_further_behind_is_dropped() -> None:
    leader, living, change = leading(), {0: "a", 1: "b", 2: "c"}, None
    for now in range(1_100, 30_000, 100):
        leader.appended(LOG, now)
        leader.fetched(Replica(1, "b"), {LOG: FetchedLog(now, now)}, now)
        leader.fetched(Replica(2, "c"), {LOG: FetchedLog(now // 2, now // 2)}, now)
        change = leader.wanted(living, now)
        assert change is None or now > 10_000
    assert change is not None and change.record.in_sync == (0, 1)


def test_a_change_that_was_asked_for_counts_until_the_record_has_another_revision() -> None:
    """Something else changed in the store: the commit that was sent may still be made."""
    leader, record = leading(), msgspec.structs.replace(RECORD, in_sync=(0, 1), starts={0: "a", 1: "b"})
    leader.confirmed(record, 8)
    change = leader.wanted({0: "a", 1: "b", 2: "c"}, 1_020)
    assert change is not None and change.record.in_sync == (0, 1, 2)
    assert leader.confirmed(record, 8) == []
    leader.appended(LOG, 11)
    assert leader.fetched(Replica(1, "b"), {LOG: FetchedLog(11, 11)}, 1_030) == []
    assert leader.logs[LOG].high_watermark == 10, "the third may be in sync by now"
    assert leader.wanted({0: "a", 1: "b", 2: "c"}, 1_040) == change


def test_who_is_alone_waits_for_nobody() -> None:
    record = ShardRecord(0, 1, (0,), (0,), starts={0: "a"})
    leader = ShardLeader(Replica(0, "a"), record, 7, InSyncRule(True, 10_000, 2_000), 0)
    assert leader.open_log(LOG, 10, 8, 0, 1) and leader.logs[LOG].high_watermark == 8
    assert leader.synced(LOG, 10) and leader.logs[LOG].high_watermark == 10


def test_a_replica_that_gave_the_shard_up_and_gets_it_again_has_nothing() -> None:
    """The same start of the same node, in the same epoch: what it had before it was moved away is gone."""
    leader, living = leading(), {0: "a", 1: "b", 2: "c"}
    away = msgspec.structs.replace(RECORD, replicas=(0, 1), in_sync=(0, 1), starts={0: "a", 1: "b"})
    again = msgspec.structs.replace(away, replicas=(0, 1, 2), target=(0, 1, 2), before=(0, 1))
    leader.confirmed(again, 9)  # what was in between was not seen
    assert leader.wanted(living, 1_020) is None
    leader.fetched(Replica(2, "c"), {LOG: FetchedLog(4, 4)}, 1_030)
    assert leader.wanted(living, 1_040) is None
    leader.fetched(Replica(2, "c"), {LOG: FetchedLog(10, 10)}, 1_050)
    change = leader.wanted(living, 1_060)
    assert change is not None and change.record.in_sync == (0, 1, 2)


def test_a_follower_that_says_that_it_has_less_than_before_does_not_count_until_it_has_it_again() -> None:
    """It dropped what was damaged, without a new start."""
    leader, living = leading(), {0: "a", 1: "b", 2: "c"}
    out = leader.wanted({0: "a", 1: "b"}, 1_020)
    assert out is not None
    leader.confirmed(out.record, 8)
    leader.fetched(Replica(2, "c"), {LOG: FetchedLog(4, 4)}, 1_030)
    assert leader.wanted(living, 1_040) is None and leader.ends_of(2) == {LOG: 4}
    leader.fetched(Replica(2, "c"), {LOG: FetchedLog(10, 10)}, 1_050)
    back = leader.wanted(living, 1_060)
    assert back is not None and back.record.in_sync == (0, 1, 2)


def test_nor_does_one_whose_history_parts_from_the_leaders() -> None:
    leader = leading()
    out = leader.wanted({0: "a", 1: "b"}, 1_020)
    assert out is not None
    leader.confirmed(out.record, 8)
    leader.parted(Replica(2, "c"), LOG)
    leader.fetched(Replica(2, "c"), {}, 1_030)
    assert leader.wanted({0: "a", 1: "b", 2: "c"}, 1_040) is None


def test_a_follower_that_cannot_cut_what_the_leader_does_not_have_is_dropped() -> None:
    """Its disk refuses that, for example. It goes on to ask, and nothing would be acknowledged any more."""
    leader, living = leading(), {0: "a", 1: "b", 2: "c"}
    change: SetChange | None = None
    leader.appended(LOG, 11)
    for now in range(1_100, 13_000, 100):
        leader.fetched(Replica(1, "b"), {LOG: FetchedLog(11, 11)}, now)
        leader.parted(Replica(2, "c"), LOG)
        leader.fetched(Replica(2, "c"), {}, now)
        change = leader.wanted(living, now)
        assert change is None or now > 10_000
    assert change is not None and change.record.in_sync == (0, 1)
