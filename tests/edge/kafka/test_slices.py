"""Requests of many elements are cut and their answers put together again, as if they had been one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from goqueue.base.limits import REQUEST_ELEMENTS_MAX, WHOLE_REQUEST_ELEMENTS_MAX
from goqueue.edge.kafka.calls import ConnectionEnd, KafkaCall, KafkaPeer
from goqueue.edge.kafka.slices import PACED, SLICED, answer_in_slices, elements_max, join, split
from goqueue.wire.errors import TooManyElements, WireError
from goqueue.wire.messages import describe_groups, offset_fetch
from goqueue.wire.messages import offset_for_leader_epoch as epochs
from tests.wire.client import APIS

PATH = ("groups", "topics", "partition_indexes")


def nested(*sizes: int) -> offset_fetch.OffsetFetchRequest:
    topics = [
        offset_fetch.OffsetFetchRequestTopics(f"t{number}", partition_indexes=list(range(size)))
        for number, size in enumerate(sizes)
    ]
    return offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("g", topics=topics)])


@pytest.mark.parametrize("sizes", [(0,), (1,), (9,), (10,), (25,), (3, 3, 3, 3), (0, 30, 0, 7), (1,) * 30])
def test_what_is_cut_and_joined_is_what_it_was(sizes: tuple[int, ...]) -> None:
    request = nested(*sizes)
    parts = list(split(request, PATH, 10))
    whole = parts[0]
    for part in parts[1:]:
        whole = join(whole, part, PATH)
    assert whole == request
    for part in parts:
        leaves = [number for group in part.groups for topic in group.topics for number in topic.partition_indexes]
        assert len(leaves) <= 10


@pytest.mark.parametrize("failed", [0, 1])
def test_what_failed_in_part_has_failed(failed: int) -> None:
    """A group that was loaded in between: offsets of one part alone would be taken for all that it committed."""
    codes = [15 if number == failed else 0 for number in range(2)]
    topics = [offset_fetch.OffsetFetchResponseTopics("t", partitions=())]
    groups = [offset_fetch.OffsetFetchResponseGroup("g", [] if code else topics, code) for code in codes]
    first, second = (offset_fetch.OffsetFetchResponse(groups=[one]) for one in groups)
    whole = join(first, second, ("groups", "topics", "partitions"))
    assert whole == offset_fetch.OffsetFetchResponse(
        groups=[msgspec.structs.replace(groups[0], topics=topics, error_code=15)]
    )
    first, second = (offset_fetch.OffsetFetchResponse(error_code=code) for code in codes)
    assert join(first, second, ("topics", "partitions")).error_code == 15


def test_the_answers_of_all_parts_are_one_and_others_run_between_them() -> None:
    asked = [epochs.OffsetForLeaderPartition(number) for number in range(2_500)]
    request = epochs.OffsetForLeaderEpochRequest(topics=[epochs.OffsetForLeaderTopic("t", asked)])
    turns: list[int] = []

    def handler(call: KafkaCall, part: epochs.OffsetForLeaderEpochRequest) -> epochs.OffsetForLeaderEpochResponse:
        turns.append(sum(len(topic.partitions) for topic in part.topics))
        topics = [
            epochs.OffsetForLeaderTopicResult(
                topic.topic, [epochs.EpochEndOffset(partition=one.partition) for one in topic.partitions]
            )
            for topic in part.topics
        ]
        return epochs.OffsetForLeaderEpochResponse(topics=topics)

    async def run() -> tuple[Any, int]:
        others = 0

        async def other() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        answer = await answer_in_slices(
            APIS[23], KafkaCall(4, "", KafkaPeer(""), ("", 0), ConnectionEnd()), handler, request
        )
        task.cancel()
        return answer, others

    answer, others = asyncio.run(run())
    (topic,) = answer.topics
    assert [one.partition for one in topic.partitions] == list(range(2_500))
    assert turns == [1000, 1000, 500] and others >= 3


def test_an_answer_that_outgrows_every_bound_ends_the_connection() -> None:
    request = describe_groups.DescribeGroupsRequest([f"g{number}" for number in range(40_000)])
    member = describe_groups.DescribedGroupMember("m", member_metadata=bytes(4_000))

    def handler(call: KafkaCall, part: describe_groups.DescribeGroupsRequest) -> describe_groups.DescribeGroupsResponse:
        return describe_groups.DescribeGroupsResponse(
            groups=[describe_groups.DescribedGroup(group_id=name, members=[member]) for name in part.groups]
        )

    with pytest.raises(WireError, match="an answer of more than"):
        asyncio.run(
            answer_in_slices(APIS[15], KafkaCall(5, "", KafkaPeer(""), ("", 0), ConnectionEnd()), handler, request)
        )


@pytest.mark.parametrize("key", sorted(SLICED))
def test_the_fields_named_in_the_table_exist(key: int) -> None:
    import importlib

    module = importlib.import_module(APIS[key].decode_request.__module__)
    for shape in SLICED[key]:
        for path, kind in ((shape.asked, "Request"), (shape.answered, "Response")):
            struct = getattr(module, APIS[key].name + kind)
            for field in path:
                annotation = struct.__annotations__[field]
                assert annotation.startswith("Sequence["), (key, field)
                struct = getattr(module, annotation.removeprefix("Sequence[").split("]")[0], None)


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_request_has_a_bound_of_elements(key: int) -> None:
    api = APIS[key]
    assert elements_max(api) == (REQUEST_ELEMENTS_MAX if key in SLICED or key in PACED else WHOLE_REQUEST_ELEMENTS_MAX)


def test_elements_count_over_all_arrays_of_a_request() -> None:
    request = nested(30, 30, 30)
    api = APIS[9]
    body = b"".join(bytes(one) for one in api.encode_request(9, request))
    assert api.decode_request(9, memoryview(body), 0, 94) == request
    with pytest.raises(TooManyElements):
        api.decode_request(9, memoryview(body), 0, 93)
