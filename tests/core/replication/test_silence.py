"""Who is not heard of for long is not in sync; who waits for the leader is heard of, however long that takes."""

from __future__ import annotations

from goqueue.base.replication import LogKey
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.replication.leader import FetchedLog, InSyncRule, Replica, ShardLeader

LOG = LogKey("t", 0)
ME, FIRST, SECOND = (Replica(node, f"{node}.1") for node in range(3))
LIVING = {node: f"{node}.1" for node in range(3)}
SILENT_MS = 2_000


def leader() -> ShardLeader:
    record = ShardRecord(0, 1, (0, 1, 2), (0, 1, 2), starts=LIVING)
    found = ShardLeader(ME, record, 7, InSyncRule(False, 10_000, SILENT_MS), 0)
    found.open_log(LOG, 0, 0, 0, 2)
    for follower in (FIRST, SECOND):
        found.fetched(follower, {LOG: FetchedLog(0, 0)}, 100)
    return found


def in_sync_at(found: ShardLeader, now: int) -> tuple[int, ...]:
    change = found.wanted(LIVING, now)
    return found.record.in_sync if change is None else change.record.in_sync


def test_a_leader_that_stood_still_does_not_take_its_followers_for_silent() -> None:
    found = leader()
    for follower in (FIRST, SECOND):
        found.begun(follower)
    assert in_sync_at(found, 9_000) == (0, 1, 2), "both wait for an answer"
    for follower in (FIRST, SECOND):
        found.ended(follower, 9_000)
    assert in_sync_at(found, 9_900) == (0, 1, 2), "they have been answered now, and may ask again"


def test_a_follower_that_does_not_ask_again_is_silent() -> None:
    found = leader()
    found.begun(FIRST)
    found.begun(SECOND)
    found.ended(SECOND, 400)
    assert in_sync_at(found, 400 + SILENT_MS) == (0, 1, 2)
    assert in_sync_at(found, 401 + SILENT_MS) == (0, 1)


def test_a_fetch_that_takes_the_place_of_another_is_under_way_until_its_own_end() -> None:
    found = leader()
    for _ in range(2):
        found.begun(FIRST)
        found.begun(SECOND)
    for follower in (FIRST, SECOND):
        found.ended(follower, 200)
    assert in_sync_at(found, 9_000) == (0, 1, 2)
    found.ended(FIRST, 9_000)
    assert in_sync_at(found, 10_000) == (0, 1, 2)
