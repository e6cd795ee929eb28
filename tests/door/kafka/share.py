"""A member of a share group, spoken by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from goqueue.format.batch import split
from goqueue.format.records import decode
from goqueue.wire.messages import describe_share_group_offsets as looking
from goqueue.wire.messages import incremental_alter_configs as altering
from goqueue.wire.messages import share_acknowledge as acking
from goqueue.wire.messages import share_fetch as fetching
from goqueue.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.door.kafka import raw
from tests.door.kafka.raw import Line, unique

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
CLOSING = -1
BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
GROUP_RESOURCE, SET = 32, 0

Answers = Mapping[int, Sequence[tuple[int, int, int]]]  # by partition: first, last, what became of them


def configure(line: Line, group: str, **values: str) -> None:
    """`share_record_lock_duration_ms="1000"` sets the group's `share.record.lock.duration.ms`."""
    changes = [altering.AlterableConfig(key.replace("_", "."), SET, value) for key, value in values.items()]
    asked = altering.IncrementalAlterConfigsRequest([altering.AlterConfigsResource(GROUP_RESOURCE, group, changes)])
    (told,) = line.ask(asked).responses
    assert told.error_code == 0, told.error_message


class ShareMember:
    """Joins when it is made; its session is opened by its first fetch."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.address = address
        self.line = Line(address)
        self.group, self.topic, self.member_id = group, topic, unique("m")
        self.epoch = 0
        joined = self.beat(0, [topic])
        assert joined.error_code == 0, joined.error_message
        self.member_epoch: int = joined.member_epoch
        (self.assigned,) = joined.assignment.topic_partitions
        self.topic_id = bytes(self.assigned.topic_id)

    def beat(self, epoch: int | None = None, topics: list[str] | None = None) -> Any:
        asked = ShareGroupHeartbeatRequest(
            self.group, self.member_id, self.member_epoch if epoch is None else epoch, None, topics
        )
        return self.line.ask(asked)

    def ask_fetch(self, answers: Answers | None = None, **more: Any) -> Any:
        """The whole response."""
        told = self.line.ask(self.request(answers, **more))
        if told.error_code == 0:
            self.epoch += 1
        return told

    def request(
        self, answers: Answers | None = None, *, max_records: int = 500, wait_ms: int = 0, **more: Any
    ) -> fetching.ShareFetchRequest:
        """The first one names the partitions. Never more records than asked for, unless told so."""
        more.setdefault("share_acquire_mode", RECORD_LIMIT)
        batches = {number: _fetch_batches(some) for number, some in (answers or {}).items()}
        numbers = self.assigned.partitions if self.epoch == 0 else batches
        parts = [fetching.FetchPartition(number, 0, batches.get(number, [])) for number in numbers]
        return fetching.ShareFetchRequest(
            self.group,
            self.member_id,
            more.pop("epoch", self.epoch),
            wait_ms,
            1,
            max_records=max_records,
            topics=[fetching.FetchTopic(self.topic_id, parts)] if parts else [],
            **more,
        )

    def fetch(self, answers: Answers | None = None, **more: Any) -> dict[tuple[int, int], tuple[bytes, int]]:
        """Values and delivery counts of the records acquired, by partition and offset."""
        told = self.ask_fetch(answers, **more)
        assert told.error_code == 0, told.error_message
        found: dict[tuple[int, int], tuple[bytes, int]] = {}
        for part in (part for topic in told.responses for part in topic.partitions):
            assert (part.error_code, part.acknowledge_error_code) == (0, 0), part
            stored = {one.offset: one.value for batch in split(bytes(part.records)) for one in decode(bytes(batch))}
            for some in part.acquired_records:
                for offset in range(some.first_offset, some.last_offset + 1):
                    found[part.partition_index, offset] = (stored[offset] or b"", some.delivery_count)
        return found

    def answer(self, answers: Answers, epoch: int | None = None, is_renew: bool = False) -> Any:
        """The response of a separate acknowledgement."""
        parts = [acking.AcknowledgePartition(number, _ack_batches(some)) for number, some in answers.items()]
        asked = acking.ShareAcknowledgeRequest(
            self.group,
            self.member_id,
            self.epoch if epoch is None else epoch,
            is_renew,
            [acking.AcknowledgeTopic(self.topic_id, parts)] if parts else [],
        )
        told = self.line.ask(asked)
        if told.error_code == 0:
            self.epoch += 1
        return told

    def outcome(self, answers: Answers, **more: Any) -> int:
        """The error code of an acknowledgement of one partition."""
        told = self.answer(answers, **more)
        assert told.error_code == 0
        (topic,) = told.responses
        (part,) = topic.partitions
        code: int = part.error_code
        return code

    def close(self) -> None:
        self.line.close()


def _fetch_batches(answers: Sequence[tuple[int, int, int]]) -> list[fetching.AcknowledgementBatch]:
    return [fetching.AcknowledgementBatch(first, last, [kind]) for first, last, kind in answers]


def _ack_batches(answers: Sequence[tuple[int, int, int]]) -> list[acking.AcknowledgementBatch]:
    return [acking.AcknowledgementBatch(first, last, [kind]) for first, last, kind in answers]


def produce(line: Line, topic: str, *values: bytes, partition: int = 0) -> None:
    told = line.ask(raw.produce_to(topic, partition, raw.batch(*values)), 9)
    assert told.responses[0].partition_responses[0].error_code == 0


def start_of(line: Line, group: str, topic: str) -> tuple[int, int]:
    """The start offset, and the lag."""
    asked = looking.DescribeShareGroupOffsetsRequestGroup(
        group, [looking.DescribeShareGroupOffsetsRequestTopic(topic, [0])]
    )
    (told,) = line.ask(looking.DescribeShareGroupOffsetsRequest([asked])).groups
    assert told.error_code == 0, told.error_message
    (part,) = told.topics[0].partitions
    return part.start_offset, part.lag


def all_starts(line: Line, group: str) -> dict[str, list[tuple[int, int, int]]]:
    """Number, start offset and lag of every partition that the group knows."""
    asked = looking.DescribeShareGroupOffsetsRequestGroup(group, None)
    (told,) = line.ask(looking.DescribeShareGroupOffsetsRequest([asked])).groups
    assert told.error_code == 0, told.error_message
    return {
        one.topic_name: [(at.partition_index, at.start_offset, at.lag) for at in one.partitions] for one in told.topics
    }
