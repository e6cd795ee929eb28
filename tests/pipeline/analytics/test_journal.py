from __future__ import annotations

from pathlib import Path

from goqueue.pipeline.analytics.journal import Journal, OffsetBounds, Pass, following, reached, unfinished
from goqueue.pipeline.link.place import OffsetRange, Place

ORDERS = Place("orders", 0)
MAILS = Place("mails", 1)


def test_the_first_pass_is_about_all_there_is() -> None:
    to_do, warnings = following(None, {ORDERS: OffsetBounds(5, 9), MAILS: OffsetBounds(0, 3)})
    assert to_do == Pass(0, (OffsetRange("mails", 1, 0, 3), OffsetRange("orders", 0, 5, 9)))
    assert to_do.size == 7
    assert not warnings


def test_the_next_pass_begins_where_the_last_one_ended() -> None:
    last = Pass(4, (OffsetRange("orders", 0, 5, 9),), is_done=True)
    to_do, warnings = following(last, {ORDERS: OffsetBounds(5, 12), MAILS: OffsetBounds(0, 0)})
    assert to_do is not None
    assert (to_do.number, to_do.work) == (5, [OffsetRange("orders", 0, 9, 12)])
    assert not warnings


def test_nothing_new_is_nothing_to_do() -> None:
    last = Pass(4, (OffsetRange("orders", 0, 5, 9),), is_done=True)
    assert following(last, {ORDERS: OffsetBounds(5, 9)}).to_do is None
    assert following(None, {}).to_do is None


def test_a_pass_that_was_cut_off_comes_again_with_its_ranges() -> None:
    last = Pass(4, (OffsetRange("orders", 0, 5, 9),))
    to_do, warnings = following(last, {ORDERS: OffsetBounds(0, 99), MAILS: OffsetBounds(0, 3)})
    assert to_do == last
    assert not warnings


def test_the_topics_of_a_pass_that_was_cut_off_belong_to_the_next() -> None:
    ranges = (OffsetRange("orders", 0, 5, 9), OffsetRange("orders", 1, 0, 9), OffsetRange("mails", 1, 3, 3))
    assert unfinished(Pass(4, ranges)) == ["orders"]
    assert unfinished(Pass(4, ranges, is_done=True)) == unfinished(None) == []


def test_how_far_a_study_is_depends_on_whether_its_last_pass_was_finished() -> None:
    ranges = (OffsetRange("orders", 0, 5, 9),)
    assert reached(Pass(4, ranges, is_done=True)) == {ORDERS: 9}
    assert reached(Pass(4, ranges)) == {ORDERS: 5}
    assert reached(None) == {}


def test_a_pass_that_comes_again_leaves_out_what_is_gone_and_says_so() -> None:
    last = Pass(4, (OffsetRange("orders", 0, 5, 9), OffsetRange("mails", 1, 0, 3)))
    to_do, warnings = following(last, {ORDERS: OffsetBounds(7, 99)})
    assert to_do == Pass(4, (OffsetRange("orders", 0, 7, 9), OffsetRange("mails", 1, 3, 3)))
    assert warnings == [
        "2 offsets of orders/0 were removed before they were studied.",
        "3 offsets of mails/1 were removed before they were studied.",
    ]


def test_what_retention_took_before_a_pass_is_told() -> None:
    last = Pass(4, (OffsetRange("orders", 0, 5, 9),), is_done=True)
    to_do, warnings = following(last, {ORDERS: OffsetBounds(11, 12)})
    assert to_do is not None and to_do.work == [OffsetRange("orders", 0, 11, 12)]
    assert warnings == ["2 offsets of orders/0 were removed before they were studied."]


def test_a_topic_that_was_made_anew_begins_anew() -> None:
    last = Pass(4, (OffsetRange("orders", 0, 5, 9),), is_done=True)
    to_do, warnings = following(last, {ORDERS: OffsetBounds(0, 2)})
    assert to_do is not None and to_do.work == [OffsetRange("orders", 0, 0, 2)]
    assert "made anew" in warnings[0]


def test_a_topic_that_is_not_asked_for_keeps_its_place() -> None:
    first = Pass(0, (OffsetRange("orders", 0, 0, 9),), is_done=True)
    second = following(first, {MAILS: OffsetBounds(0, 3)}).to_do
    assert second is not None
    done = Pass(second.number, second.ranges, is_done=True)
    third = following(done, {ORDERS: OffsetBounds(0, 11), MAILS: OffsetBounds(0, 3)}).to_do
    assert third is not None and third.work == [OffsetRange("orders", 0, 9, 11)]


def test_a_journal_remembers_its_last_entry_alone(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "progress"))
    assert journal.last() is None
    one, two = (
        Pass(0, (OffsetRange("orders", 0, 0, 9),)),
        Pass(1, (OffsetRange("orders", 0, 9, 10), OffsetRange("mails", 1, 0, 3))),
    )
    journal.begin(one)
    assert journal.last() == one
    journal.finish(one)
    assert journal.last() == Pass(0, one.ranges, is_done=True)
    journal.begin(two)
    found = journal.last()
    assert found is not None and (found.number, found.is_done) == (1, False)
    assert sorted(found.ranges, key=lambda one: one.topic) == sorted(two.ranges, key=lambda one: one.topic)
