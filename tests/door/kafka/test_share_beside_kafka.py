"""The same requests of share consumers to this node and to Apache Kafka: answers are the same.

Skipped where a Kafka with share groups cannot be had; `apache.py` says how it is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.node_process import NodeProcess
from goqueue.wire.messages import share_acknowledge as acking
from goqueue.wire.messages import share_fetch as fetching
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from goqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from goqueue.wire.messages.share_group_describe import ShareGroupDescribeRequest
from goqueue.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.door.kafka.apache import SHARE_VERSION, ApacheKafka, find_jars, run_tool
from tests.door.kafka.raw import Line, new_topic, unique
from tests.door.kafka.share import ACCEPT, GAP, REJECT, RELEASE, RENEW, configure, produce
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

Batches = Sequence[tuple[int, int, list[int]]]
LOADING = (3, 14, 15, 16)  # a coordinator or a partition that is not there yet


@pytest.fixture(scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = find_jars(tmp_path_factory.mktemp("jars"), SHARE_VERSION)
    if found is None:
        pytest.skip("the jars of a Kafka with share groups, or Java, are not here")
    return found


@pytest.fixture(scope="module")
def theirs(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ApacheKafka(jars, tmp_path_factory.mktemp("apache")) as running:
        yield running.address


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with NodeProcess(tmp_path_factory.mktemp("ours") / "data") as running:
        yield running.kafka


class Member:
    """One member of a group of its own, over a topic with ten records in one batch."""

    def __init__(self, address: str) -> None:
        self.line = Line(address)
        self.group, self.topic, self.member_id = unique("g"), unique("t"), unique("m")
        self.epoch = 0  # of the session
        self.line.ask(FindCoordinatorRequest("", 0, [self.group]), 4)
        self.line.ask(new_topic(self.topic, 1))
        wait_until(self._write, "the topic took nothing")
        configure(self.line, self.group, share_auto_offset_reset="earliest", share_record_lock_duration_ms="20000")

    def _write(self) -> bool:
        try:
            produce(self.line, self.topic, *(b"v%d" % number for number in range(10)))
        except AssertionError:
            return False
        return True

    def beat(self, epoch: int, topics: list[str] | None = None, member_id: str | None = None) -> Any:
        asked = ShareGroupHeartbeatRequest(self.group, member_id or self.member_id, epoch, None, topics)
        told = self.line.ask(asked)
        if told.error_code in LOADING:
            wait_until(lambda: self.line.ask(asked).error_code not in LOADING)
            told = self.line.ask(asked)
        return told

    def join(self) -> list[int]:
        """The partitions that it is assigned."""
        told = self.beat(0, [self.topic])
        assert told.error_code == 0, told.error_message
        self.member_epoch: int = told.member_epoch
        found = [told.assignment]

        def is_assigned() -> bool:
            if found[-1] is None or not found[-1].topic_partitions:
                told = self.beat(self.member_epoch)
                self.member_epoch = told.member_epoch
                found.append(told.assignment)
            return found[-1] is not None and bool(found[-1].topic_partitions)

        wait_until(is_assigned, "nothing was assigned")
        (only,) = found[-1].topic_partitions
        self.topic_id = bytes(only.topic_id)
        return list(only.partitions)

    def fetch(
        self, answers: Batches = (), *, epoch: int | None = None, partition: int | None = None, **more: Any
    ) -> Any:
        """What came of it: the error, and for each partition its errors and what was acquired."""
        batches = [fetching.AcknowledgementBatch(*one) for one in answers]
        number = 0 if partition is None else partition
        is_named = self.epoch == 0 or partition is not None or batches
        topics = [fetching.FetchTopic(self.topic_id, [fetching.FetchPartition(number, 0, batches)])] if is_named else []
        given = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500, **more}
        asked = fetching.ShareFetchRequest(
            self.group, self.member_id, self.epoch if epoch is None else epoch, topics=topics, **given
        )
        told = self.line.ask(asked)
        self.epoch += told.error_code == 0
        parts = [part for topic in told.responses for part in topic.partitions]
        return told.error_code, [
            (
                part.partition_index,
                part.error_code,
                part.acknowledge_error_code,
                [(one.first_offset, one.last_offset, one.delivery_count) for one in part.acquired_records],
            )
            for part in parts
        ]

    def fetch_some(self, **more: Any) -> Any:
        """As soon as something comes: Kafka opens its share partitions a little later."""
        found = [self.fetch(**more)]

        def is_there() -> bool:
            if not any(acquired for *_, acquired in found[-1][1]):
                found.append(self.fetch(**more))
            return any(acquired for *_, acquired in found[-1][1])

        wait_until(is_there, lambda: found[-1])
        return found[-1]

    def answer(
        self, *batches: tuple[int, int, list[int]], epoch: int | None = None, partition: int = 0, is_renew: bool = False
    ) -> Any:
        part = acking.AcknowledgePartition(partition, [acking.AcknowledgementBatch(*one) for one in batches])
        asked = acking.ShareAcknowledgeRequest(
            self.group,
            self.member_id,
            self.epoch if epoch is None else epoch,
            is_renew,
            [acking.AcknowledgeTopic(self.topic_id, [part])],
        )
        told = self.line.ask(asked)
        self.epoch += told.error_code == 0
        parts = [part for topic in told.responses for part in topic.partitions]
        return told.error_code, [(part.partition_index, part.error_code) for part in parts]


Case = Callable[[Member], Any]


def both(theirs: str, ours: str, case: Case) -> None:
    told = []
    for address in (theirs, ours):
        member = Member(address)
        try:
            told.append(case(member))
        finally:
            member.line.close()
    assert told[1] == told[0]


def test_versions(theirs: str, ours: str) -> None:
    def case(member: Member) -> Any:
        found = member.line.ask(ApiVersionsRequest("raw", "1"), 3).api_keys
        share = {76, 77, 78, 79, 90, 91, 92}
        return sorted((one.api_key, one.min_version, one.max_version) for one in found if one.api_key in share)

    both(theirs, ours, case)


def test_members(theirs: str, ours: str) -> None:
    def case(member: Member) -> Any:
        told: list[Any] = [member.join()]
        told.append(member.beat(member.member_epoch + 5).error_code)
        told.append(member.beat(3, None, "nobody").error_code)
        told.append(member.beat(0, None, unique("new")).error_code)
        told.append(member.line.ask(ShareGroupHeartbeatRequest("", "m", 0, None, ["t"])).error_code)
        (found,) = member.line.ask(ShareGroupDescribeRequest([member.group])).groups
        told.append((found.error_code, found.group_state, found.assignor_name, len(found.members)))
        (found,) = member.line.ask(ShareGroupDescribeRequest([unique("none")])).groups
        told.append((found.error_code, found.group_state))
        left = member.beat(-1)
        told.append((left.error_code, left.member_epoch, member.beat(-1).error_code))
        return told

    both(theirs, ours, case)


def test_sessions(theirs: str, ours: str) -> None:
    def case(member: Member) -> Any:
        member.join()
        told: list[Any] = [member.fetch(epoch=3), member.answer((0, 0, [ACCEPT]), epoch=1)]
        told.append(member.answer((0, 0, [ACCEPT]), epoch=0))
        told.append(member.fetch([(0, 0, [ACCEPT])], epoch=0))
        told.append(member.fetch_some())
        told.append(member.fetch(epoch=member.epoch + 5))
        told.append(member.fetch(partition=9, max_wait_ms=0))
        told.append(member.fetch(max_records=0, max_wait_ms=0))
        told.append(member.fetch(epoch=-1, max_records=0, max_wait_ms=0))
        told.append(member.fetch(epoch=member.epoch))
        return told

    both(theirs, ours, case)


def test_answers(theirs: str, ours: str) -> None:
    def case(member: Member) -> Any:
        member.join()
        told: list[Any] = [member.fetch_some(max_records=2, batch_size=2), member.answer((0, 3, [ACCEPT]))]
        told.append(member.answer((0, 0, [ACCEPT])))
        told.append(member.answer((4, 5, [ACCEPT]), (5, 6, [ACCEPT])))
        told.append(member.answer((5, 6, [ACCEPT]), (4, 4, [ACCEPT])))
        told.append(member.answer((4, 4, [7])))
        told.append(member.answer((4, 6, [ACCEPT, ACCEPT])))
        told.append(member.answer((6, 4, [ACCEPT])))
        told.append(member.answer((4, 4, [RENEW])))
        told.append(member.answer((4, 4, [RENEW]), is_renew=True))
        told.append(member.answer((4, 4, [ACCEPT]), partition=7))
        told.append(member.answer((4, 5, [RELEASE]), (6, 6, [REJECT])))
        told.append(member.answer((7, 8, [ACCEPT, RELEASE])))
        told.append(member.fetch())
        told.append(member.fetch([(4, 5, [ACCEPT])], max_wait_ms=0))
        told.append(member.answer((8, 9, [GAP, ACCEPT])))
        told.append(member.fetch(max_wait_ms=0))
        return told

    both(theirs, ours, case)


def test_kafkas_tool_for_share_groups(jars: Path, ours: str) -> None:
    member = Member(ours)
    member.join()
    member.fetch_some()
    member.answer((0, 4, [ACCEPT]))

    def tool(*arguments: str) -> list[list[str]]:
        main = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
        done = run_tool(jars, main, "--bootstrap-server", ours, *arguments)
        told = (done.stdout + done.stderr).splitlines()
        return [line.split() for line in told if line.strip() and not line.startswith("NOTE: Picked up")]

    group, topic = ("--group", member.group), ("--topic", member.topic)
    assert [member.group] in tool("--list")
    assert tool("--describe", *group)[-1] == [member.group, member.topic, "0", "5", "5"]
    assert tool("--describe", *group, "--members")[-1][1] == member.member_id
    reset = ("--reset-offsets", *group, *topic, "--to-earliest", "--execute")
    assert "not empty" in " ".join(tool(*reset)[-1])
    assert member.beat(-1).error_code == 0
    member.line.close()
    assert tool(*reset)[-1] == [member.group, member.topic, "0", "0"]
    assert tool("--delete-offsets", *group, *topic)[-1] == [member.topic, "Successful"]
    assert "successful" in " ".join(tool("--delete", *group)[-1])
    assert [member.group] not in tool("--list")
