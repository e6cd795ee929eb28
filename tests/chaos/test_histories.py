"""The checkers of the chaos suite notice what they are for: each is given a history that breaks its promise."""

from __future__ import annotations

from pathlib import Path

from bench.cluster_process import ClusterProcess
from chaos.histories import (
    ABORTED,
    AFTER_ACK,
    DOUBLED,
    EARLY,
    ENDS,
    LEADERS,
    LOST,
    ONE_LEASE,
    ORDER,
    SCHEMAS,
    STRANGE,
    WHOLE,
    Delays,
    Ends,
    Findings,
    Groups,
    Leases,
    Registrations,
    Sends,
    Transactions,
)
from chaos.leaders import LeaderWatch


def broken(findings: Findings) -> set[str]:
    return {promise for promise, wrong in findings.items() if wrong}


def test_sends() -> None:
    sends = Sends()
    sends.acked = {"a": "k", "b": "k", "c": "k"}
    sends.unknown = {"d"}
    assert broken(sends.check(["a", "b", "d", "c"])) == set()
    assert broken(sends.check(["a", "c"])) == {LOST}
    assert broken(sends.check(["a", "b", "c", "c"])) == {DOUBLED}
    assert broken(sends.check(["b", "a", "c"])) == {ORDER}
    assert broken(sends.check(["a", "b", "c", "e"])) == {STRANGE}


def test_leases() -> None:
    leases = Leases()
    leases.leased("m", "one", 0.0, 1.0, 20)
    leases.acked("m", 2.0)
    assert broken(leases.check()) == set()
    leases.leased("m", "two", 1.5, 3.0, 20)
    assert broken(leases.check()) == {ONE_LEASE}
    leases.given_back("one", 2.5)
    assert broken(leases.check()) == set()
    leases.leased("m", "two", 30.0, 31.0, 20)
    assert broken(leases.check()) == {AFTER_ACK}


def test_delays() -> None:
    delays = Delays()
    delays.earliest_ms["m"], delays.seen_ms["m"] = 1_000, 700
    assert broken(delays.check(400)) == set()
    assert broken(delays.check()) == {EARLY}


def test_transactions() -> None:
    seen = Transactions()
    seen.committed, seen.aborted, seen.unknown = {"t1": ["a", "b"]}, {"t2": ["c"]}, {"t3": ["d", "e"]}
    assert broken(seen.check(["a", "b", "d", "e"])) == set()
    assert broken(seen.check(["a", "b", "d"])) == {WHOLE}
    assert broken(seen.check(["a", "b", "c"])) == {ABORTED}
    assert broken(seen.check(["a", "a"])) == {DOUBLED, LOST}


def test_ends() -> None:
    ends = Ends()
    ends.saw(0, 5)
    ends.saw(1, 3)
    assert broken(ends.check()) == set()
    ends.saw(0, 4)
    assert broken(ends.check()) == {ENDS}


def test_groups_of_a_fifo_queue() -> None:
    groups = Groups()
    groups.saw("g", 0, "id0")
    groups.saw("g", 2, "id2")
    groups.saw("g", 0, "id0")
    assert broken(groups.check()) == set()
    groups.saw("g", 1, "id1")
    assert broken(groups.check()) == {ORDER}
    groups.saw("g", 2, "another")
    assert broken(groups.check()) == {ORDER, DOUBLED}


def test_registrations() -> None:
    seen = Registrations()
    seen.registered("s", 0, (1, 1))
    seen.registered("s", 1, (2, 2))
    assert broken(seen.check({("s", 0): (1, 1), ("s", 1): (2, 2)})) == set()
    assert broken(seen.check({("s", 0): (1, 1)})) == {LOST}
    assert broken(seen.check({("s", 0): (7, 1), ("s", 1): (2, 2)})) == {SCHEMAS}
    seen.registered("s", 0, (3, 3))
    assert broken(seen.check({("s", 0): (1, 1), ("s", 1): (2, 2)})) == {SCHEMAS}


def test_leaders(tmp_path: Path) -> None:
    watch = LeaderWatch(ClusterProcess(tmp_path))
    watch.saw(state(0, (1, 0)))
    watch.saw(state(1, (1, 0)))
    watch.saw(state(0, (2, 1)))
    assert broken(watch.check()) == set() and [one.leader for one in watch.changes] == [0, 1]
    watch.saw(state(2, (2, 2)))
    assert broken(watch.check()) == {LEADERS}


def test_an_epoch_that_goes_back_is_noticed(tmp_path: Path) -> None:
    watch = LeaderWatch(ClusterProcess(tmp_path))
    watch.saw(state(0, (2, 0)))
    watch.saw(state(1, (1, 1)))
    assert broken(watch.check()) == set()  # another node, which is a moment behind
    watch.saw(state(0, (1, 1)))
    assert broken(watch.check()) == {LEADERS}


def state(node: int, led: tuple[int, int]) -> dict[str, object]:
    """As a node tells it, of one shard: its epoch and its leader."""
    return {"node": node, "revision": led[0], "shards": [{"shard": 0, "epoch": led[0], "leader": led[1]}]}
