from __future__ import annotations

from typing import Any

import pytest

from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.subscription import SourceSubscription
from goqueue.pipeline.source.watching import ENDS_S, TOPICS_S, Watch
from tests.pipeline.source.fakes import Clock, FakeCluster


@pytest.fixture
def cluster() -> Any:
    return FakeCluster(a=[(0, 5), (0, 7)], b=[(2, 3)])


def test_trap_5_an_idle_query_asks_ninety_times_a_second_and_the_node_is_asked_ten_times(cluster: Any) -> None:
    clock = Clock()
    watch = Watch(cluster, SourceSubscription(topics=("a",)), "read_committed", clock)
    for _ in range(90):
        watch.view()
        clock.now += 1 / 90
    assert cluster.asked.count("latest") <= 1 / ENDS_S + 1
    assert cluster.asked.count("describe") <= 2


def test_what_is_new_shows_up_when_the_view_is_too_old(cluster: Any) -> None:
    clock = Clock()
    watch = Watch(cluster, SourceSubscription(pattern="[ab]"), "read_committed", clock)
    assert watch.view().ends == {Place("a", 0): 5, Place("a", 1): 7, Place("b", 0): 3}
    cluster.grow("b", 0, 4)
    assert watch.view().ends[Place("b", 0)] == 3
    clock.now += 2 * ENDS_S
    assert watch.view().ends[Place("b", 0)] == 7


def test_partitions_and_topics_that_are_added_show_up(cluster: Any) -> None:
    clock = Clock()
    watch = Watch(cluster, SourceSubscription(pattern="a.*"), "read_committed", clock)
    watch.view()
    cluster.logs[Place("a", 2)] = (0, 1)
    cluster.make("aa", [(0, 4)])
    clock.now += TOPICS_S
    assert watch.view().ends == {Place("a", 0): 5, Place("a", 1): 7, Place("a", 2): 1, Place("aa", 0): 4}


def test_a_fresh_view_is_never_an_old_one(cluster: Any) -> None:
    watch = Watch(cluster, SourceSubscription(topics=("b",)), "read_committed", Clock())
    watch.view()
    cluster.logs[Place("b", 1)] = (0, 9)
    assert watch.fresh().ends == {Place("b", 0): 3, Place("b", 1): 9}


def test_a_topic_that_is_deleted_between_two_looks_is_missing(cluster: Any) -> None:
    clock = Clock()
    watch = Watch(cluster, SourceSubscription(topics=("a", "b")), "read_committed", clock)
    watch.view()
    cluster.delete("b")
    clock.now += 2 * ENDS_S
    view = watch.view()
    assert view.missing == ("b",)
    assert {place.topic for place in view.ends} == {"a"}


def test_a_pattern_matches_whole_names(cluster: Any) -> None:
    cluster.make("ab", [(0, 1)])
    assert set(SourceSubscription(pattern="a").find(cluster).ids) == {"a"}
    assert set(SourceSubscription(pattern="a.*").find(cluster).ids) == {"a", "ab"}


def test_partitions_that_are_assigned_and_not_there_are_missing(cluster: Any) -> None:
    found = SourceSubscription(assigned=(Place("a", 1), Place("a", 9), Place("z", 0))).find(cluster)
    assert (found.places, found.missing) == ((Place("a", 1),), ("a/9", "z/0"))
