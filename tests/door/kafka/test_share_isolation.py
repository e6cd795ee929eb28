"""Share groups and transactions: which records of open and aborted ones a group is handed, as its settings say."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.kafka.raw import Line, unique
from tests.door.kafka.share import ACCEPT, REJECT, RELEASE, ShareMember, configure, produce, start_of
from tests.door.kafka.test_transaction_version import NAMES_BY, InTxn
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["topic", "key"])  # in ranges, and message by message


@pytest.fixture
def topic(lone: str) -> str:
    return lone


@pytest.fixture
def member(kafka: str, line: Line, topic: str, order: str) -> Iterator[ShareMember]:
    """Of a group that takes all that is stored."""
    with_level = {"share_isolation_level": "read_uncommitted"}
    yield from joined(kafka, line, topic, order, **with_level)


@pytest.fixture
def careful(kafka: str, line: Line, topic: str, order: str) -> Iterator[ShareMember]:
    """Of a group as it is by default."""
    yield from joined(kafka, line, topic, order)


def joined(kafka: str, line: Line, topic: str, order: str, **more: str) -> Iterator[ShareMember]:
    group = unique("g")
    configure(line, group, share_auto_offset_reset="earliest", queue_order=order, **more)
    made = ShareMember(kafka, group, topic)
    yield made
    made.close()


class Writer(InTxn):
    def write(self, topic: str, value: bytes) -> None:
        told = self._line.ask(self.request(topic, 0, value), NAMES_BY)
        assert told.responses[0].partition_responses[0].error_code == 0


def test_records_of_open_and_aborted_transactions_are_handed_out_where_the_group_wants_them(
    line: Line, topic: str, member: ShareMember, careful: ShareMember
) -> None:
    writer = Writer(line, unique("txn"))
    produce(line, topic, b"plain")
    writer.write(topic, b"open")
    assert member.fetch() == {(0, 0): (b"plain", 1), (0, 1): (b"open", 1)}
    assert careful.fetch() == {(0, 0): (b"plain", 1)}
    assert member.outcome({0: [(0, 1, ACCEPT)]}) == careful.outcome({0: [(0, 0, ACCEPT)]}) == 0
    assert writer.end(commit=False) == 0
    writer.write(topic, b"aborted")
    assert writer.end(commit=False) == 0
    writer.write(topic, b"committed")
    assert writer.end(commit=True) == 0
    assert careful.fetch(wait_ms=5_000) == {(0, 5): (b"committed", 1)}
    assert member.fetch() == {(0, 3): (b"aborted", 1), (0, 5): (b"committed", 1)}, "and no marker"
    assert member.outcome({0: [(3, 3, ACCEPT), (5, 5, ACCEPT)]}) == careful.outcome({0: [(5, 5, ACCEPT)]}) == 0
    assert member.fetch() == careful.fetch() == {}
    for one in (member, careful):
        wait_until(lambda one=one: start_of(line, one.group, topic)[1] == 0)  # type: ignore[misc]


def test_a_record_of_an_open_transaction_ends_a_wait_and_can_come_again(
    line: Line, topic: str, member: ShareMember
) -> None:
    writer = Writer(line, unique("txn"))
    member.line.send(member.request(wait_ms=60_000))
    writer.write(topic, b"open")
    _, told = member.line.receive()
    assert told.responses[0].partitions[0].acquired_records[0].first_offset == 0
    member.epoch = 1
    assert member.outcome({0: [(0, 0, RELEASE)]}) == 0
    assert member.fetch() == {(0, 0): (b"open", 2)}
    assert start_of(line, member.group, topic)[0] == 0


def test_a_record_of_an_aborted_transaction_can_be_a_dead_letter(
    shared_node: NodeProcess, line: Line, topic: str, member: ShareMember
) -> None:
    writer = Writer(line, unique("txn"))
    writer.write(topic, b"taken back")
    assert set(member.fetch()) == {(0, 0)}
    assert writer.end(commit=False) == 0
    assert member.outcome({0: [(0, 0, REJECT)]}) == 0

    def letters() -> list[str]:
        found = httpx.get(f"{shared_node.url}/topics/{topic}/dlq")
        return [one["value"] for one in found.json()["messages"]] if found.status_code == 200 else []

    wait_until(lambda: letters() == ["taken back"], letters)


def test_a_group_that_is_set_back_to_committed_records_goes_on(line: Line, topic: str, member: ShareMember) -> None:
    writer = Writer(line, unique("txn"))
    writer.write(topic, b"first")
    assert member.fetch() == {(0, 0): (b"first", 1)}
    configure(line, member.group, share_isolation_level="read_committed")
    writer.write(topic, b"second")
    assert member.fetch({0: [(0, 0, ACCEPT)]}) == {}
    assert writer.end(commit=True) == 0
    assert member.fetch(wait_ms=10_000) == {(0, 1): (b"second", 1)}
