from __future__ import annotations

from goqueue.pipeline.analytics.messages import beyond
from goqueue.pipeline.link.place import Place


def test_a_topic_nobody_studied_is_looked_through_whole() -> None:
    assert beyond("orders", {Place("mails", 0): 9}) == [[("topic", "=", "orders")]]


def test_files_that_hold_only_what_is_studied_are_left_out() -> None:
    """A partition without messages so far may get its first at offset 0, long after the others."""
    known = {Place("orders", 0): 100, Place("orders", 3): 70, Place("mails", 0): 9}
    assert beyond("orders", known) == [
        [("topic", "=", "orders"), ("offset", ">=", 70)],
        [("topic", "=", "orders"), ("partition", ">", 3)],
        [("topic", "=", "orders"), ("partition", "=", 1)],
        [("topic", "=", "orders"), ("partition", "=", 2)],
    ]
