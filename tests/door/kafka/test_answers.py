"""The same questions twice, to a new node and to one that was killed: both answer as Kafka is documented to."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from bench.node_process import NodeProcess
from goqueue.format.records import decode
from goqueue.wire.api import APIS
from goqueue.wire.codes import MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE
from goqueue.wire.messages import create_topics, list_groups, produce
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from goqueue.wire.messages.describe_cluster import DescribeClusterRequest
from goqueue.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from goqueue.wire.messages.heartbeat import HeartbeatRequest
from tests.door.kafka import answers, raw
from tests.door.kafka.answers import KAFKA, NONE, Question
from tests.door.kafka.raw import Line, unique
from tests.one_of_cluster import a_node


@pytest.fixture(scope="module")
def own_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    # Some messages carry old timestamps; retention must not take them away in the middle of a test.
    settings = {"GOQUEUE_TOPICS_RETENTION_MS": "-1"}
    with a_node(tmp_path_factory.mktemp("answers") / "data", settings) as running:
        yield running


@pytest.fixture(scope="module", params=["new", "killed"])
def line(request: pytest.FixtureRequest, own_node: NodeProcess) -> Iterator[Line]:
    if request.param == "killed":
        own_node.kill()
        own_node.start()
    with Line(own_node.kafka) as made:
        yield made


@pytest.mark.parametrize("question", KAFKA, ids=lambda one: one.__name__)
def test_the_node_answers_as_kafka_does(line: Line, question: Question) -> None:
    assert question(line) == KAFKA[question]


def test_only_what_is_served_is_advertised(line: Line) -> None:
    answer = line.ask(ApiVersionsRequest("test", "1"))
    assert answer.error_code == NONE
    served = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert served[18] == (0, APIS[18].max_version)
    for key, (_, newest) in served.items():
        assert newest <= APIS[key].max_version
    assert {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 21, 22, 23, 32, 33, 35, 37, 42, 44, 47} < set(served)
    assert {60, 61, 68, 69} < set(served)


def test_every_advertised_version_is_answered(line: Line) -> None:
    for one in line.ask(ApiVersionsRequest("test", "1")).api_keys:
        api = APIS[one.api_key]
        module = import_module(api.decode_request.__module__)
        request = getattr(module, f"{api.name}Request")
        # A produce without acks has no answer.
        asked = request(acks=1) if api.name == "Produce" else request()
        for version in range(max(one.min_version, api.min_version), one.max_version + 1):
            assert type(line.ask(asked, version)).__name__ == f"{api.name}Response", (api.name, version)


@pytest.mark.parametrize("version", range(3, 14))
def test_records_of_every_produce_version_are_found_by_every_fetch_version(line: Line, version: int) -> None:
    topic = answers.made_topic(line)
    topic_id = answers.id_of(line, topic)
    data = produce.TopicProduceData(topic, topic_id, [produce.PartitionProduceData(0, raw.batch(b"v", b"w"))])
    stored = line.ask(produce.ProduceRequest(None, -1, 1000, [data]), version).responses[0].partition_responses[0]
    assert (stored.error_code, stored.base_offset) == (NONE, 0)
    for fetching in range(4, APIS[1].max_version + 1):
        (part,) = line.ask(raw.fetch_from(topic, 0, 0, topic_id=topic_id), fetching).responses[0].partitions
        assert part.error_code == NONE and part.high_watermark == 2
        assert [one.value for one in decode(part.records)] == [b"v", b"w"]


def test_the_cluster_and_its_directories(line: Line) -> None:
    topic = answers.made_topic(line, 2)
    answers.produced(line, topic, raw.batch(b"v"))
    cluster = line.ask(DescribeClusterRequest())
    host, port = line.socket.getpeername()
    assert cluster.error_code == NONE and len(cluster.cluster_id) > 10
    assert [(one.broker_id, one.host, one.port) for one in cluster.brokers] == [(cluster.controller_id, host, port)]
    (dirs,) = line.ask(DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0, 1])])).results
    sizes = {one.partition_index: one.partition_size for one in dirs.topics[0].partitions}
    assert dirs.error_code == NONE and sizes[0] > 60 and sizes[1] == 0
    assert dirs.total_bytes > dirs.usable_bytes > 0


@pytest.mark.parametrize(("kind", "code"), [(2, MISMATCHED_ENDPOINT_TYPE), (0, UNSUPPORTED_ENDPOINT_TYPE)])
def test_who_looks_for_controllers_is_told_that_these_are_brokers(line: Line, kind: int, code: int) -> None:
    for version in (1, 2):
        answer = line.ask(DescribeClusterRequest(endpoint_type=kind), version)
        assert answer.error_code == code and answer.error_message and not answer.brokers


def test_groups_are_listed_by_state_and_kind(line: Line) -> None:
    settled, _, _ = answers.led_group(line)
    served, _, _ = answers.served_group(line, answers.made_topic(line))
    offsets_only = unique("g")
    line.ask(raw.commit(offsets_only, answers.made_topic(line), 0, 1), 9)

    def listed(**filters: list[str]) -> dict[str, tuple[str, str]]:
        found = line.ask(list_groups.ListGroupsRequest(**filters)).groups
        return {one.group_id: (one.group_state, one.group_type.lower()) for one in found}

    every = listed()
    assert every[settled] == ("Stable", "classic") and every[served] == ("Stable", "consumer")
    assert every[offsets_only][0] == "Empty"
    assert settled in listed(states_filter=["Stable"]) and offsets_only not in listed(states_filter=["Stable"])
    assert served in listed(types_filter=["consumer"]) and settled not in listed(types_filter=["consumer"])


def test_metadata_creates_a_topic_when_it_may(line: Line) -> None:
    name = unique("auto")
    assert line.ask(raw.metadata_of(name)).topics[0].error_code == answers.UNKNOWN_TOPIC_OR_PARTITION
    (made,) = line.ask(raw.metadata_of(name, create=True)).topics
    assert made.error_code == NONE and len(made.partitions) == 3
    assert answers.produced(line, name, raw.batch(b"v")).error_code == NONE


def test_what_was_true_before_a_kill_is_true_after_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    node = NodeProcess(tmp_path_factory.mktemp("kept") / "data").start()
    with Line(node.kafka) as line:
        topic = answers.made_topic(line)
        topic_id = answers.id_of(line, topic)
        me = answers.new_producer(line)
        for sequence in (0, 1, 2):
            assert answers.produced(line, topic, raw.batch(b"v", producer=(me, 0, sequence))).base_offset == sequence
        group, member, generation = answers.led_group(line)
        served, served_member, epoch = answers.served_group(line, topic)
        assert line.ask(raw.commit(group, topic, 0, 2, member, generation), 9).topics[0].partitions[0].error_code == 0
    node.kill()
    with node, Line(node.kafka) as line:
        assert answers.id_of(line, topic) == topic_id
        again = answers.produced(line, topic, raw.batch(b"v", producer=(me, 0, 1)))
        assert (again.error_code, again.base_offset) == (NONE, 1), "a repetition gets its first offset"
        gap = answers.produced(line, topic, raw.batch(b"v", producer=(me, 0, 4)))
        assert gap.error_code == answers.OUT_OF_ORDER_SEQUENCE_NUMBER
        going_on = answers.produced(line, topic, raw.batch(b"v", producer=(me, 0, 3)))
        assert (going_on.error_code, going_on.base_offset) == (NONE, 3)
        assert answers.new_producer(line) > me
        part = line.ask(raw.committed(group, topic, 0), 9).groups[0].topics[0].partitions[0]
        assert part.committed_offset == 2
        assert line.ask(HeartbeatRequest(group, generation, member)).error_code == NONE, "the group goes on"
        assert line.ask(HeartbeatRequest(group, generation - 1, member)).error_code == answers.ILLEGAL_GENERATION
        assert answers.beaten(line, served, served_member, epoch).error_code == NONE
        code = line.ask(create_topics.CreateTopicsRequest([create_topics.CreatableTopic(topic, 1, 1)])).topics[0]
        assert code.error_code == answers.TOPIC_ALREADY_EXISTS


def test_nothing_is_created_where_the_node_forbids_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {"GOQUEUE_TOPICS_AUTO_CREATE": "off"}
    with (
        NodeProcess(tmp_path_factory.mktemp("off") / "data", settings=settings) as node,
        Line(node.kafka) as line,
    ):
        assert line.ask(raw.metadata_of("t", create=True)).topics[0].error_code == answers.UNKNOWN_TOPIC_OR_PARTITION
        assert line.ask(raw.metadata_of("t")).topics[0].error_code == answers.UNKNOWN_TOPIC_OR_PARTITION
