from __future__ import annotations

from typing import Any

import pytest

from goqueue.pipeline.link.errors import NodeUnreachable
from goqueue.pipeline.link.place import Place
from goqueue.pipeline.source.group import GroupProgress, request_of
from goqueue.pipeline.source.offsets import QueryMark
from tests.pipeline.source.fakes import FakeLeaders


class _Away:
    leaders = FakeLeaders()

    def ask(self, *_: Any) -> None:
        raise NodeUnreachable("n:1", 1.0, "refused")


def test_a_query_does_not_fail_by_what_is_only_shown(caplog: pytest.LogCaptureFixture) -> None:
    GroupProgress(_Away(), "g").tell(QueryMark({Place("a", 0): 5}))  # type: ignore[arg-type]
    assert "The group g cannot show how far the query is" in caplog.text


def test_topics_are_named_and_have_their_ids() -> None:
    mark = QueryMark({Place("b", 1): 5, Place("b", 0): 4, Place("a", 0): 3}, {"a": "11" * 16, "b": "22" * 16})
    request = request_of("g", mark)
    assert [(topic.name, topic.topic_id) for topic in request.topics] == [("a", b"\x11" * 16), ("b", b"\x22" * 16)]
    assert [one.partition_index for one in request.topics[1].partitions] == [0, 1]
