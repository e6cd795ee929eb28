"""What Kafka is documented to answer, request by request: the table behind `test_answers`.

A question takes a line to a node, makes what it needs under names of its own, and returns the error code (or codes)
that came back. `KAFKA[question]` is what Kafka answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from goqueue.format.batch import assemble, read_header
from goqueue.wire.messages import alter_configs as altering
from goqueue.wire.messages import consumer_group_describe as consumer_describing
from goqueue.wire.messages import create_partitions as widening
from goqueue.wire.messages import create_topics as creating
from goqueue.wire.messages import delete_groups as group_deleting
from goqueue.wire.messages import delete_records as shortening
from goqueue.wire.messages import delete_topics as deleting
from goqueue.wire.messages import describe_configs as config_describing
from goqueue.wire.messages import describe_groups as group_describing
from goqueue.wire.messages import describe_producers as producer_describing
from goqueue.wire.messages import fetch as fetching
from goqueue.wire.messages import find_coordinator as finding
from goqueue.wire.messages import heartbeat as hearts
from goqueue.wire.messages import incremental_alter_configs as changing
from goqueue.wire.messages import init_producer_id as identifying
from goqueue.wire.messages import leave_group as leaving
from goqueue.wire.messages import metadata, sasl_authenticate, sasl_handshake
from goqueue.wire.messages import offset_commit as committing
from goqueue.wire.messages import offset_delete as offset_deleting
from goqueue.wire.messages import offset_fetch as offset_fetching
from goqueue.wire.messages import offset_for_leader_epoch as epochs
from goqueue.wire.messages import produce as producing
from tests.door.kafka import raw
from tests.door.kafka.raw import Line, unique

NONE = 0
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
OFFSET_METADATA_TOO_LARGE = 12
INVALID_TOPIC = 17
INVALID_REQUIRED_ACKS = 21
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
UNSUPPORTED_SASL_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40
INVALID_REQUEST = 42
POLICY_VIOLATION = 44
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
FETCH_SESSION_ID_NOT_FOUND = 70
UNKNOWN_LEADER_EPOCH = 75
MEMBER_ID_REQUIRED = 79
FENCED_INSTANCE_ID = 82
GROUP_SUBSCRIBED_TO_TOPIC = 86
INVALID_RECORD = 87
UNKNOWN_TOPIC_ID = 100
FENCED_MEMBER_EPOCH = 110
UNRELEASED_INSTANCE_ID = 111
UNSUPPORTED_ASSIGNOR = 112
STALE_MEMBER_EPOCH = 113

NOBODYS_ID = b"\x0f" * 16
Question = Callable[[Line], Any]
KAFKA: dict[Question, Any] = {}


# Where the node is known to answer otherwise.


def kafka_says(*codes: int) -> Callable[[Question], Question]:
    def enter(question: Question) -> Question:
        KAFKA[question] = codes[0] if len(codes) == 1 else list(codes)
        return question

    return enter


# --- what questions need -------------------------------------------------------------------------------------


def made_topic(line: Line, partitions: int = 1, **config: str) -> str:
    name = unique("t")
    settings = {key.replace("_", "."): value for key, value in config.items()}
    assert line.ask(raw.new_topic(name, partitions, config=settings)).topics[0].error_code == NONE
    return name


def id_of(line: Line, topic: str) -> bytes:
    return bytes(line.ask(raw.metadata_of(topic)).topics[0].topic_id)


def produced(line: Line, topic: str, records: bytes | None, partition: int = 0, acks: int = -1) -> Any:
    return line.ask(raw.produce_to(topic, partition, records, acks), 9).responses[0].partition_responses[0]


def fetched(line: Line, topic: str, partition: int, offset: int, epoch: int = -1) -> Any:
    return line.ask(raw.fetch_from(topic, partition, offset, epoch), 12).responses[0].partitions[0]


def looked_up(line: Line, topic: str, partition: int, timestamp: int, epoch: int = -1) -> Any:
    return line.ask(raw.offsets_of(topic, partition, timestamp, epoch)).topics[0].partitions[0]


def member(line: Line, group: str, **more: Any) -> str:
    """A member id to join with."""
    refused = line.ask(raw.join(group, **more))
    assert refused.error_code == MEMBER_ID_REQUIRED and refused.member_id
    return str(refused.member_id)


def led_group(line: Line) -> tuple[str, str, int]:
    """A settled group of one: its name, the member and the generation."""
    group = unique("g")
    me = member(line, group)
    joined = line.ask(raw.join(group, me))
    assert (joined.error_code, joined.leader) == (NONE, me)
    assert line.ask(raw.sync(group, joined.generation_id, me, {me: b"all"})).error_code == NONE
    return group, me, int(joined.generation_id)


def rebalancing_group(line: Line, other: Line) -> tuple[str, str, int]:
    """The same while a second member waits for it to join again."""
    group, me, generation = led_group(line)
    newcomer = member(line, group)
    other.send(raw.join(group, newcomer))
    described = line.ask(group_describing.DescribeGroupsRequest([group])).groups[0]
    while described.group_state != "PreparingRebalance":
        described = line.ask(group_describing.DescribeGroupsRequest([group])).groups[0]
    return group, me, generation


def other_line(line: Line) -> Line:
    host, port = line.socket.getpeername()
    return Line(f"{host}:{port}")


def beaten(line: Line, *arguments: Any, version: int | None = None, **more: Any) -> Any:
    return line.ask(raw.beat(*arguments, **more), version)


def served_group(line: Line, topic: str, **more: Any) -> tuple[str, str, int]:
    """A member of a server-side group: the group, the member and its epoch."""
    group, me = unique("g"), unique("m")
    joined = beaten(line, group, me, 0, [topic], {}, **more)
    assert joined.error_code == NONE and joined.member_epoch > 0
    return group, me, int(joined.member_epoch)


# --- produce -------------------------------------------------------------------------------------------------


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION)
def produce_to_an_unknown_topic(line: Line) -> int:
    return int(produced(line, unique("no"), raw.batch(b"v")).error_code)


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION)
def produce_to_a_wrong_partition(line: Line) -> int:
    return int(produced(line, made_topic(line), raw.batch(b"v"), partition=7).error_code)


@kafka_says(UNKNOWN_TOPIC_ID)
def produce_to_an_unknown_topic_id(line: Line) -> int:
    data = producing.TopicProduceData("", NOBODYS_ID, [producing.PartitionProduceData(0, raw.batch(b"v"))])
    answer = line.ask(producing.ProduceRequest(None, -1, 1000, [data]), 13)
    return int(answer.responses[0].partition_responses[0].error_code)


@kafka_says(INVALID_REQUIRED_ACKS)
def produce_with_two_acks(line: Line) -> int:
    return int(produced(line, made_topic(line), raw.batch(b"v"), acks=2).error_code)


@kafka_says(CORRUPT_MESSAGE)
def produce_a_batch_with_a_wrong_crc(line: Line) -> int:
    damaged = bytearray(raw.batch(b"value"))
    damaged[-1] ^= 1
    return int(produced(line, made_topic(line), bytes(damaged)).error_code)


@kafka_says(MESSAGE_TOO_LARGE)
def produce_more_than_the_topic_takes(line: Line) -> int:
    topic = made_topic(line, max_message_bytes="1000")
    return int(produced(line, topic, raw.batch(b"x" * 2000)).error_code)


@kafka_says(INVALID_RECORD)
def produce_without_a_key_to_a_compacted_topic(line: Line) -> int:
    topic = made_topic(line, cleanup_policy="compact")
    return int(produced(line, topic, raw.batch(b"v", key=None)).error_code)


@kafka_says(INVALID_RECORD)
def produce_no_batch(line: Line) -> int:
    return int(produced(line, made_topic(line), b"").error_code)


@kafka_says(INVALID_RECORD)
def produce_two_batches_at_once(line: Line) -> int:
    return int(produced(line, made_topic(line), raw.batch(b"a") + raw.batch(b"b")).error_code)


@kafka_says(INVALID_RECORD)
def produce_a_batch_that_lies_about_its_count(line: Line) -> int:
    honest = raw.batch(b"a", b"b")
    header = msgspec.structs.replace(read_header(honest), record_count=3)
    return int(produced(line, made_topic(line), assemble(header, memoryview(honest)[61:])).error_code)


@kafka_says(NONE, NONE, OUT_OF_ORDER_SEQUENCE_NUMBER)
def produce_with_a_gap_in_the_sequence(line: Line) -> list[int]:
    topic, me = made_topic(line), new_producer(line)
    return [int(produced(line, topic, raw.batch(b"v", producer=(me, 0, at))).error_code) for at in (0, 1, 3)]


@kafka_says(NONE, 0, NONE, 2, NONE, 0)
def produce_the_same_sequence_twice(line: Line) -> list[int]:
    topic, me = made_topic(line), new_producer(line)
    found: list[int] = []
    for at in (0, 2, 0):
        answer = produced(line, topic, raw.batch(b"v", b"w", producer=(me, 0, at)))
        found += [answer.error_code, answer.base_offset]
    return found


@kafka_says(NONE, NONE, INVALID_PRODUCER_EPOCH)
def produce_in_an_old_epoch(line: Line) -> list[int]:
    topic, me = made_topic(line), new_producer(line)
    tries = [(0, 0), (1, 0), (0, 1)]
    return [int(produced(line, topic, raw.batch(b"v", producer=(me, *one))).error_code) for one in tries]


@kafka_says(NONE, OUT_OF_ORDER_SEQUENCE_NUMBER)
def produce_in_a_new_epoch_past_its_first_sequence(line: Line) -> list[int]:
    topic, me = made_topic(line), new_producer(line)
    return [int(produced(line, topic, raw.batch(b"v", producer=(me, *one))).error_code) for one in [(0, 0), (1, 5)]]


def new_producer(line: Line) -> int:
    answer = line.ask(identifying.InitProducerIdRequest(None, 1000), 4)
    assert (answer.error_code, answer.producer_epoch) == (NONE, 0)
    return int(answer.producer_id)


@kafka_says(NONE, NONE, NONE)
def init_producer_id_never_gives_an_id_twice(line: Line) -> list[int]:
    ids = {new_producer(line) for _ in range(3)}
    assert len(ids) == 3
    return [NONE] * 3


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION)
def describe_producers_of_what_is_not_there(line: Line) -> list[int]:
    asked = [(unique("no"), 0), (made_topic(line), 4)]
    request = producer_describing.DescribeProducersRequest(
        [producer_describing.TopicRequest(name, [number]) for name, number in asked]
    )
    return [one.partitions[0].error_code for one in line.ask(request).topics]


@kafka_says(NONE)
def describe_producers_knows_the_last_sequence(line: Line) -> int:
    topic, me = made_topic(line), new_producer(line)
    produced(line, topic, raw.batch(b"a", b"b", producer=(me, 0, 0)))
    request = producer_describing.DescribeProducersRequest([producer_describing.TopicRequest(topic, [0])])
    part = line.ask(request).topics[0].partitions[0]
    assert [(one.producer_id, one.producer_epoch, one.last_sequence) for one in part.active_producers] == [(me, 0, 1)]
    return int(part.error_code)


# --- fetch and offsets ---------------------------------------------------------------------------------------


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION)
def fetch_an_unknown_topic(line: Line) -> int:
    return int(fetched(line, unique("no"), 0, 0).error_code)


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION)
def fetch_a_wrong_partition(line: Line) -> int:
    return int(fetched(line, made_topic(line), 9, 0).error_code)


@kafka_says(UNKNOWN_TOPIC_ID)
def fetch_an_unknown_topic_id(line: Line) -> int:
    return int(line.ask(raw.fetch_from("", 0, 0, topic_id=NOBODYS_ID)).responses[0].partitions[0].error_code)


@kafka_says(OFFSET_OUT_OF_RANGE, OFFSET_OUT_OF_RANGE, NONE)
def fetch_out_of_range(line: Line) -> list[int]:
    topic = made_topic(line)
    produced(line, topic, raw.batch(b"v"))
    return [int(fetched(line, topic, 0, offset).error_code) for offset in (-5, 2, 1)]


@kafka_says(OFFSET_OUT_OF_RANGE, NONE)
def fetch_what_was_deleted(line: Line) -> list[int]:
    topic = made_topic(line)
    produced(line, topic, raw.batch(b"a", b"b", b"c"))
    assert shortened(line, topic, 0, 2) == (NONE, 2)
    return [int(fetched(line, topic, 0, offset).error_code) for offset in (1, 2)]


@kafka_says(UNKNOWN_LEADER_EPOCH, NONE)
def fetch_in_an_epoch_to_come(line: Line) -> list[int]:
    topic = made_topic(line)
    return [int(fetched(line, topic, 0, 0, epoch).error_code) for epoch in (1000, -1)]


@kafka_says(FETCH_SESSION_ID_NOT_FOUND)
def fetch_in_an_unknown_session(line: Line) -> int:
    return int(line.ask(fetching.FetchRequest(session_id=77, session_epoch=3)).error_code)


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_LEADER_EPOCH)
def list_offsets_of_what_is_not_there(line: Line) -> list[int]:
    topic = made_topic(line)
    found = [
        looked_up(line, unique("no"), 0, -1),
        looked_up(line, topic, 3, -1),
        looked_up(line, topic, 0, -1, epoch=1000),
    ]
    return [int(one.error_code) for one in found]


@kafka_says(0, 3, 2, 1, -1)
def list_offsets_by_time(line: Line) -> list[int]:
    topic = made_topic(line)
    for timestamp in (1_000_000, 2_000_000, 3_000_000):
        produced(line, topic, raw.batch(b"v", timestamp_ms=timestamp))
    return [int(looked_up(line, topic, 0, when).offset) for when in (-2, -1, -3, 1_500_000, 4_000_000)]


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_LEADER_EPOCH, NONE)
def offsets_for_leader_epochs(line: Line) -> list[int]:
    topic = made_topic(line)
    asked = [(unique("no"), 0, -1), (topic, 9, -1), (topic, 0, 1000), (topic, 0, -1)]
    found = []
    for name, number, claimed in asked:
        part = epochs.OffsetForLeaderPartition(number, claimed, 0)
        request = epochs.OffsetForLeaderEpochRequest(-1, [epochs.OffsetForLeaderTopic(name, [part])])
        found.append(line.ask(request).topics[0].partitions[0].error_code)
    return found


# --- metadata and coordinators -------------------------------------------------------------------------------


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC)
def metadata_of_what_is_not_there(line: Line) -> list[int]:
    return [int(one.error_code) for one in line.ask(raw.metadata_of(unique("no"), "no such?name")).topics]


@kafka_says(INVALID_TOPIC, INVALID_TOPIC, INVALID_TOPIC)
def metadata_creates_no_topic_under_a_wrong_name(line: Line) -> list[int]:
    asked = raw.metadata_of("a b", "x" * 250, "..", create=True)
    return [int(one.error_code) for one in line.ask(asked).topics]


@kafka_says(UNKNOWN_TOPIC_ID)
def metadata_of_an_unknown_topic_id(line: Line) -> int:
    asked = metadata.MetadataRequest([metadata.MetadataRequestTopic(NOBODYS_ID, None)], False)
    return int(line.ask(asked, 12).topics[0].error_code)


@kafka_says(NONE, NONE, INVALID_REQUEST)
def find_coordinators(line: Line) -> list[int]:
    both = line.ask(finding.FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"]), 4).coordinators
    strange = line.ask(finding.FindCoordinatorRequest(key_type=9, coordinator_keys=["a"]), 4)
    codes = [int(one.error_code) for one in both]
    return [*codes, int(strange.coordinators[0].error_code if strange.coordinators else strange.error_code)]


@kafka_says(UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE)
def sasl_is_refused_politely(line: Line) -> list[int]:
    shaken = line.ask(sasl_handshake.SaslHandshakeRequest("PLAIN"))
    tried = line.ask(sasl_authenticate.SaslAuthenticateRequest(b"\0me\0secret"))
    return [int(shaken.error_code), int(tried.error_code)]


# --- the classic protocol ------------------------------------------------------------------------------------


@kafka_says(MEMBER_ID_REQUIRED, NONE)
def join_needs_a_member_id_from_version_4(line: Line) -> list[int]:
    return [int(line.ask(raw.join(unique("g")), version).error_code) for version in (4, 3)]


@kafka_says(INVALID_SESSION_TIMEOUT, INVALID_SESSION_TIMEOUT)
def join_with_a_session_out_of_bounds(line: Line) -> list[int]:
    return [int(line.ask(raw.join(unique("g"), session_ms=ms)).error_code) for ms in (1, 2**31 - 1)]


@kafka_says(INVALID_GROUP_ID)
def join_a_group_without_a_name(line: Line) -> int:
    return int(line.ask(raw.join("")).error_code)


@kafka_says(UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID)
def join_as_nobody(line: Line) -> list[int]:
    group, _, _ = led_group(line)
    return [int(line.ask(raw.join(one, "nobody")).error_code) for one in (group, unique("g"))]


@kafka_says(INCONSISTENT_GROUP_PROTOCOL, INCONSISTENT_GROUP_PROTOCOL, INCONSISTENT_GROUP_PROTOCOL)
def join_with_other_protocols(line: Line) -> list[int]:
    group, _, _ = led_group(line)
    asked = [
        raw.join(group, protocol_type="connect"),
        raw.join(group, protocols={"other": b""}),
        raw.join(group, protocols={}),
    ]
    return [int(line.ask(one).error_code) for one in asked]


@kafka_says(UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, NONE)
def sync_out_of_turn(line: Line) -> list[int]:
    group, me, generation = led_group(line)
    asked = [
        raw.sync(group, generation, "nobody"),
        raw.sync(group, generation + 3, me),
        raw.sync(group, generation, me, protocol="other"),
        raw.sync(unique("g"), 1, "nobody"),
        raw.sync(group, generation, me),
    ]
    return [int(line.ask(one).error_code) for one in asked]


@kafka_says(UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, NONE)
def heartbeat_out_of_turn(line: Line) -> list[int]:
    group, me, generation = led_group(line)
    asked = [(group, generation, "nobody"), (group, generation - 1, me), (unique("g"), 1, me), (group, generation, me)]
    return [int(line.ask(hearts.HeartbeatRequest(*one)).error_code) for one in asked]


@kafka_says(REBALANCE_IN_PROGRESS, REBALANCE_IN_PROGRESS, NONE)
def a_rebalance_is_announced(line: Line) -> list[int]:
    with other_line(line) as other:
        group, me, generation = rebalancing_group(line, other)
        topic = made_topic(line)
        beaten_code = line.ask(hearts.HeartbeatRequest(group, generation, me)).error_code
        synced_code = line.ask(raw.sync(group, generation, me)).error_code
        # Kafka lets a member commit until it has joined again.
        stored = line.ask(raw.commit(group, topic, 0, 1, me, generation), 9).topics[0].partitions[0].error_code
        return [int(beaten_code), int(synced_code), int(stored)]


@kafka_says(REBALANCE_IN_PROGRESS)
def commit_between_join_and_sync(line: Line) -> int:
    group, topic = unique("g"), made_topic(line)
    me = member(line, group)
    generation = line.ask(raw.join(group, me)).generation_id
    return int(line.ask(raw.commit(group, topic, 0, 1, me, generation), 9).topics[0].partitions[0].error_code)


@kafka_says(UNKNOWN_MEMBER_ID, NONE, UNKNOWN_MEMBER_ID)
def leave_as_nobody_and_as_a_member(line: Line) -> list[int]:
    group, me, generation = led_group(line)
    parted = line.ask(raw.leave(group, "nobody", me))
    after = line.ask(hearts.HeartbeatRequest(group, generation, me))
    return [*(int(one.error_code) for one in parted.members), int(after.error_code)]


@kafka_says(FENCED_INSTANCE_ID, NONE)
def a_static_member_is_fenced_by_its_successor(line: Line) -> list[int]:
    group = unique("g")
    first = line.ask(raw.join(group, instance_id="i"))
    assert first.error_code == NONE
    line.ask(raw.sync(group, first.generation_id, first.member_id, {first.member_id: b"x"}))
    second = line.ask(raw.join(group, instance_id="i"))
    assert second.generation_id == first.generation_id, "nobody rebalances for a static member that is back"
    old = line.ask(hearts.HeartbeatRequest(group, first.generation_id, first.member_id, "i"))
    new = line.ask(hearts.HeartbeatRequest(group, second.generation_id, second.member_id, "i"))
    return [int(old.error_code), int(new.error_code)]


@kafka_says(NONE)
def a_static_member_leaves_by_its_instance_id(line: Line) -> int:
    group = unique("g")
    assert line.ask(raw.join(group, instance_id="i")).error_code == NONE
    parted = line.ask(leaving.LeaveGroupRequest(group, members=[leaving.MemberIdentity("", "i")]))
    return int(parted.members[0].error_code)


# --- committed offsets ---------------------------------------------------------------------------------------


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION, NONE)
def commit_to_what_is_not_there(line: Line) -> list[int]:
    topic, group = made_topic(line), unique("g")
    asked = [(unique("no"), 0), (topic, 8), (topic, 0)]
    return [
        int(line.ask(raw.commit(group, name, number, 5), 9).topics[0].partitions[0].error_code)
        for name, number in asked
    ]


@kafka_says(UNKNOWN_TOPIC_ID, NONE)
def commit_by_topic_id(line: Line) -> list[int]:
    topic = made_topic(line)
    found = []
    for topic_id in (NOBODYS_ID, id_of(line, topic)):
        part = committing.OffsetCommitRequestPartition(0, 5)
        wanted = committing.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[part])
        request = committing.OffsetCommitRequest(unique("g"), topics=[wanted])
        found.append(int(line.ask(request, 10).topics[0].partitions[0].error_code))
    return found


@kafka_says(ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND, NONE)
def commit_out_of_turn(line: Line) -> list[int]:
    topic = made_topic(line)
    group, me, generation = led_group(line)
    asked = [
        raw.commit(group, topic, 0, 1, me, generation + 1),
        raw.commit(group, topic, 0, 1, "nobody", generation),
        raw.commit(group, topic, 0, 1),
        raw.commit(unique("g"), topic, 0, 1, "nobody", 4),
        raw.commit(group, topic, 0, 1, me, generation),
    ]
    return [int(line.ask(one, 9).topics[0].partitions[0].error_code) for one in asked]


@kafka_says(OFFSET_METADATA_TOO_LARGE)
def commit_with_a_long_text(line: Line) -> int:
    part = committing.OffsetCommitRequestPartition(0, 5, committed_metadata="x" * 5000)
    wanted = committing.OffsetCommitRequestTopic(name=made_topic(line), partitions=[part])
    request = committing.OffsetCommitRequest(unique("g"), topics=[wanted])
    return int(line.ask(request, 9).topics[0].partitions[0].error_code)


@kafka_says(NONE, -1, NONE, 7)
def fetch_committed_offsets(line: Line) -> list[int]:
    topic, group = made_topic(line), unique("g")
    found: list[int] = []
    for _ in range(2):
        part = line.ask(raw.committed(group, topic, 0), 9).groups[0].topics[0].partitions[0]
        found += [part.error_code, part.committed_offset]
        line.ask(raw.commit(group, topic, 0, 7), 9)
    return found


@kafka_says(UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, NONE)
def fetch_committed_offsets_as_a_member(line: Line) -> list[int]:
    topic = made_topic(line)
    group, me, epoch = served_group(line, topic)
    wanted = [offset_fetching.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    found = []
    for name, shown in (("nobody", epoch), (me, epoch + 5), (me, epoch)):
        asked = offset_fetching.OffsetFetchRequestGroup(group, name, shown, wanted)
        found.append(int(line.ask(offset_fetching.OffsetFetchRequest(groups=[asked]), 9).groups[0].error_code))
    return found


@kafka_says(UNKNOWN_TOPIC_ID)
def fetch_committed_offsets_by_an_unknown_topic_id(line: Line) -> int:
    wanted = [offset_fetching.OffsetFetchRequestTopics(topic_id=NOBODYS_ID, partition_indexes=[0])]
    asked = offset_fetching.OffsetFetchRequestGroup(unique("g"), topics=wanted)
    answer = line.ask(offset_fetching.OffsetFetchRequest(groups=[asked]), 10)
    return int(answer.groups[0].topics[0].partitions[0].error_code)


def deleted_offsets(line: Line, group: str, topic: str, partition: int = 0) -> Any:
    part = offset_deleting.OffsetDeleteRequestPartition(partition)
    return line.ask(
        offset_deleting.OffsetDeleteRequest(group, [offset_deleting.OffsetDeleteRequestTopic(topic, [part])])
    )


@kafka_says(GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION, NONE)
def delete_committed_offsets(line: Line) -> list[int]:
    topic, group = made_topic(line), unique("g")
    unknown = deleted_offsets(line, group, topic).error_code
    line.ask(raw.commit(group, topic, 0, 7), 9)
    wrong = deleted_offsets(line, group, unique("no")).topics[0].partitions[0].error_code
    return [int(unknown), int(wrong), int(deleted_offsets(line, group, topic).topics[0].partitions[0].error_code)]


@kafka_says(GROUP_SUBSCRIBED_TO_TOPIC)
def delete_offsets_of_a_topic_that_is_read(line: Line) -> int:
    topic = made_topic(line)
    group, _, _ = served_group(line, topic)
    return int(deleted_offsets(line, group, topic).topics[0].partitions[0].error_code)


# --- groups --------------------------------------------------------------------------------------------------


@kafka_says(NONE, GROUP_ID_NOT_FOUND, NONE)
def describe_groups(line: Line) -> list[int]:
    known, _, _ = led_group(line)
    found = []
    for group, version, state in ((unique("g"), 5, "Dead"), (unique("g"), 6, "Dead"), (known, 6, "Stable")):
        described = line.ask(group_describing.DescribeGroupsRequest([group]), version).groups[0]
        assert described.group_state == state
        found.append(int(described.error_code))
    return found


@kafka_says(GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, NONE, GROUP_ID_NOT_FOUND)
def delete_groups(line: Line) -> list[int]:
    group, me, _ = led_group(line)
    found = [deleted_group(line, unique("g")), deleted_group(line, group)]
    line.ask(raw.leave(group, me))
    return [*found, deleted_group(line, group), deleted_group(line, group)]


def deleted_group(line: Line, group: str) -> int:
    return int(line.ask(group_deleting.DeleteGroupsRequest([group])).results[0].error_code)


@kafka_says(INVALID_REQUEST, INVALID_REQUEST, INVALID_REQUEST, UNSUPPORTED_ASSIGNOR)
def join_the_server_side_protocol_wrongly(line: Line) -> list[int]:
    topic, group = made_topic(line), unique("g")
    found = [
        beaten(line, "", "m", 0, [topic], {}),
        beaten(line, group, "m", 0, None, {}),
        beaten(line, group, "", 0, [topic], {}, version=1),
        beaten(line, group, "m", 0, [topic], {}, server_assignor="best"),
    ]
    return [int(one.error_code) for one in found]


@kafka_says(GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, NONE)
def beat_out_of_turn(line: Line) -> list[int]:
    group, me, epoch = served_group(line, made_topic(line))
    asked = [(unique("g"), me, 1), (group, "nobody", epoch), (group, me, epoch + 5), (group, me, epoch)]
    return [int(beaten(line, *one).error_code) for one in asked]


@kafka_says(UNRELEASED_INSTANCE_ID)
def join_as_a_static_member_that_lives(line: Line) -> int:
    topic = made_topic(line)
    group, _, _ = served_group(line, topic, instance_id="i")
    return int(beaten(line, group, "another", 0, [topic], {}, instance_id="i").error_code)


@kafka_says(STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, NONE)
def commit_as_a_member_of_the_server_side_protocol(line: Line) -> list[int]:
    topic = made_topic(line)
    group, me, epoch = served_group(line, topic)
    asked = [(me, epoch + 1), ("nobody", epoch), (me, epoch)]
    return [int(line.ask(raw.commit(group, topic, 0, 1, *one), 9).topics[0].partitions[0].error_code) for one in asked]


@kafka_says(GROUP_ID_NOT_FOUND, NONE)
def describe_server_side_groups(line: Line) -> list[int]:
    known, _, _ = served_group(line, made_topic(line))
    answer = line.ask(consumer_describing.ConsumerGroupDescribeRequest([unique("g"), known]))
    return [int(one.error_code) for one in answer.groups]


# --- topics --------------------------------------------------------------------------------------------------


@kafka_says(
    TOPIC_ALREADY_EXISTS,
    INVALID_TOPIC,
    INVALID_TOPIC,
    INVALID_PARTITIONS,
    INVALID_PARTITIONS,
    INVALID_REPLICATION_FACTOR,
    INVALID_CONFIG,
    INVALID_CONFIG,
)
def create_topics_wrongly(line: Line) -> list[int]:
    asked = [
        raw.new_topic(made_topic(line)),
        raw.new_topic("a/b"),
        raw.new_topic(""),
        raw.new_topic(unique("t"), 0),
        raw.new_topic(unique("t"), -3),
        raw.new_topic(unique("t"), replicas=3),
        raw.new_topic(unique("t"), config={"no.such.setting": "1"}),
        raw.new_topic(unique("t"), config={"retention.ms": "soon"}),
    ]
    return [int(line.ask(one).topics[0].error_code) for one in asked]


@kafka_says(INVALID_REQUEST)
def create_a_topic_twice_in_one_request(line: Line) -> int:
    twice = creating.CreatableTopic(unique("t"), 1, 1)
    codes = {int(one.error_code) for one in line.ask(creating.CreateTopicsRequest([twice, twice])).topics}
    (code,) = codes
    return code


@kafka_says(INVALID_REPLICA_ASSIGNMENT)
def create_a_topic_on_nodes_that_are_not_there(line: Line) -> int:
    placed = [creating.CreatableReplicaAssignment(0, [5, 6])]
    topic = creating.CreatableTopic(unique("t"), -1, -1, placed)
    return int(line.ask(creating.CreateTopicsRequest([topic])).topics[0].error_code)


@kafka_says(NONE, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_ALREADY_EXISTS)
def only_check_a_new_topic(line: Line) -> list[int]:
    name, known = unique("t"), made_topic(line)
    topics = [creating.CreatableTopic(one, 1, 1) for one in (name, known)]
    first, second = line.ask(creating.CreateTopicsRequest(topics, validate_only=True)).topics
    there = line.ask(raw.metadata_of(name)).topics[0]
    return [int(first.error_code), int(there.error_code), int(second.error_code)]


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NONE, UNKNOWN_TOPIC_OR_PARTITION)
def delete_topics(line: Line) -> list[int]:
    topic = made_topic(line)
    asked = [
        deleting.DeleteTopicState(unique("no")),
        deleting.DeleteTopicState(None, NOBODYS_ID),
        deleting.DeleteTopicState(None, id_of(line, topic)),
        deleting.DeleteTopicState(topic),
    ]
    return [int(line.ask(deleting.DeleteTopicsRequest([one])).responses[0].error_code) for one in asked]


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_PARTITIONS, NONE)
def create_partitions(line: Line) -> list[int]:
    topic = made_topic(line, 2)
    found = []
    for name, count in ((unique("no"), 3), (topic, 2), (topic, 1), (topic, 3)):
        request = widening.CreatePartitionsRequest([widening.CreatePartitionsTopic(name, count, None)], 1000)
        found.append(int(line.ask(request).results[0].error_code))
    return found


def shortened(line: Line, topic: str, partition: int, offset: int) -> tuple[int, int]:
    part = shortening.DeleteRecordsPartition(partition, offset)
    request = shortening.DeleteRecordsRequest([shortening.DeleteRecordsTopic(topic, [part])], 1000)
    answer = line.ask(request).topics[0].partitions[0]
    return int(answer.error_code), int(answer.low_watermark)


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE, OFFSET_OUT_OF_RANGE, NONE)
def delete_records(line: Line) -> list[int]:
    topic = made_topic(line)
    produced(line, topic, raw.batch(b"a", b"b"))
    asked = [(unique("no"), 0, 1), (topic, 6, 1), (topic, 0, 3), (topic, 0, -2), (topic, 0, -1)]
    return [shortened(line, *one)[0] for one in asked]


@kafka_says(POLICY_VIOLATION)
def delete_records_of_a_compacted_topic(line: Line) -> int:
    topic = made_topic(line, cleanup_policy="compact")
    produced(line, topic, raw.batch(b"a", b"b"))
    return shortened(line, topic, 0, 1)[0]


# --- settings ------------------------------------------------------------------------------------------------


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, INVALID_REQUEST, NONE, NONE)
def describe_configs(line: Line) -> list[int]:
    asked = [(2, unique("no")), (4, "77"), (99, "x"), (2, made_topic(line)), (4, "0")]
    resources = [config_describing.DescribeConfigsResource(kind, name, None) for kind, name in asked]
    return [int(one.error_code) for one in line.ask(config_describing.DescribeConfigsRequest(resources)).results]


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, INVALID_CONFIG, NONE)
def alter_configs(line: Line) -> list[int]:
    topic = made_topic(line)
    asked = [
        (unique("no"), "retention.ms", "1000"),
        (topic, "no.such", "1"),
        (topic, "retention.ms", "x"),
        (topic, "retention.ms", "1000"),
    ]
    resources = [altering.AlterConfigsResource(2, name, [altering.AlterableConfig(*rest)]) for name, *rest in asked]
    return [int(line.ask(altering.AlterConfigsRequest([one])).responses[0].error_code) for one in resources]


@kafka_says(UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, INVALID_CONFIG, INVALID_CONFIG, NONE, NONE)
def alter_configs_incrementally(line: Line) -> list[int]:
    topic = made_topic(line)
    asked: list[tuple[str, str, int, str | None]] = [
        (unique("no"), "retention.ms", 0, "1000"),
        (topic, "no.such", 0, "1"),
        (topic, "retention.ms", 0, "x"),
        (topic, "retention.ms", 2, "5"),
        (topic, "cleanup.policy", 2, "compact"),
        (topic, "cleanup.policy", 1, None),
    ]
    resources = [
        changing.AlterConfigsResource(2, name, [changing.AlterableConfig(key, kind, value)])
        for name, key, kind, value in asked
    ]
    return [int(line.ask(changing.IncrementalAlterConfigsRequest([one])).responses[0].error_code) for one in resources]
